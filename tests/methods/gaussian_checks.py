"""Checks shared by the methods whose latents come from a Gaussian head."""

from __future__ import annotations

import torch
from overfitting import answers_of


def assert_latents_are_the_parallel_forwards(backbone, method, examples):
    """Check that the latents fed step by step equal the head's means in one parallel forward over the same latents."""
    rows = answers_of(backbone, method, [e.question for e in examples])
    for example, row in zip(examples, rows, strict=True):
        prompt = backbone.prompt(method.question(example.question))
        latents = torch.stack(row.latent_embeds)
        ids = torch.tensor([*prompt.ids, backbone.think_id])
        embeds = torch.cat([backbone.embedding(ids), latents])[None]
        with torch.no_grad():
            hidden, _ = backbone.trunk(embeds, None, torch.arange(embeds.shape[1])[None])
            mean, _ = method.head(hidden[0, len(ids) - 1 : -1])
        torch.testing.assert_close(latents, mean * method.config.sigma, atol=1e-4, rtol=1e-3)
