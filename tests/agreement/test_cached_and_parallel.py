"""Cached decoding equals one parallel forward on the same latents, which training relies on."""

import torch

from ruplar.engine.reference import generate
from ruplar.engine.sampling import Decoding

DECODING = Decoding(max_answer_tokens=5)


def recorded_logits(backbone, monkeypatch) -> list[torch.Tensor]:
    """The logits [B, V] of every decode step."""
    rounds: list[torch.Tensor] = []
    head = backbone.logits

    def listen(hidden):
        rounds.append(head(hidden))
        return rounds[-1]

    monkeypatch.setattr(backbone, "logits", listen)
    return rounds


def parallel(backbone, prompt, row) -> torch.Tensor:
    """Logits from <think> on, [forwards, V], of one forward over [ prompt <think> z .. z </think> answer less its last ]."""
    embed = lambda ids: backbone.embedding(torch.tensor(ids, dtype=torch.long))  # noqa: E731
    thought = torch.stack(row.latent_embeds) if row.latent_embeds else embed([])
    parts = [
        embed([*prompt.ids, backbone.think_id]), thought, embed([backbone.end_think_id]), embed(row.answer_ids[:-1])
    ]  # fmt: skip
    embeds = torch.cat(parts)[None]
    with torch.inference_mode():
        hidden, _ = backbone.trunk(embeds, None, torch.arange(embeds.shape[1])[None])
        return backbone.logits(hidden[0, len(prompt.ids) :])


def test_cached_latents_equal_one_parallel_forward(backbone, thinker, prompts, monkeypatch):
    rounds = recorded_logits(backbone, monkeypatch)
    rows = generate(backbone, thinker, prompts, DECODING, keep_latents="all")
    cached = torch.stack(rounds, dim=1)  # [B, rounds, V]
    monkeypatch.undo()
    assert len({row.latent_count for row in rows}) > 1, "rows should differ"
    for b, row in enumerate(rows):
        whole = parallel(backbone, prompts[b], row)
        assert len(whole) == row.forwards
        torch.testing.assert_close(cached[b, : row.forwards], whole, atol=1e-4, rtol=1e-4)
        assert whole[row.latent_count + 1 :].argmax(-1).tolist() == row.answer_ids
        for i, logits in enumerate(row.latent_logits):
            torch.testing.assert_close(logits, whole[i], atol=1e-4, rtol=1e-4)
