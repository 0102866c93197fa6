"""What CoLaR and its variant with one group per step (`regular`) share: settings, latent head and loss of Gaussian latents.

    P | <think> | z_1 .. z_G | </think> | answer eos
         CE→a token of z_1's group ..   CE→</think>, CE→answer, CE→eos
         head→z_1  ..  head→z_G   head→E[</think>]                               (each predicted one position earlier)

Axes: B rows, S positions, D width, M latents, T labels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from ruplar.methods import base
from ruplar.methods.base import Loss, Tools
from ruplar.priors.base import rng_of
from ruplar.settings import Settings
from ruplar.types import Batch, Item, Prompt, SampleContext, SparsePrior

if TYPE_CHECKING:
    from torch import Tensor, nn

    from ruplar.engine.gaussian import GaussianThinker
    from ruplar.model.backbone import Backbone


class GaussianConfig(Settings):
    """Settings that both methods share."""

    answer_weight: float = Field(1.0, ge=0, description="Weight of the cross-entropy of thought and answer.")
    latent_weight: float = Field(1.0, ge=0, description="Weight of the latent head's loss.")
    # differs from the paper: D47. It draws a sample for the squared error; its expected value is the same without noise
    latent_loss: Literal["mse", "sampled_mse", "nll"] = Field(
        "mse", description="Expected squared error of a sample, that of one sample (as published), or -log density."
    )
    # differs from the paper: D48. 2,048 for every model; here the model's width, which is 2,048 on Llama-3.2-1B
    head_width: int | None = Field(None, ge=1, description="Hidden size of the latent head; null: the model's.")
    sigma: float | None = Field(
        None, gt=0, description="Standard deviation of the input embedding; null: measured, and saved with the model."
    )
    # differs from the paper: D50. It always samples latents and halt; here only with noise (`--noise 1`)
    halt: Literal["argmax", "sample"] = Field(
        "argmax",
        description="Halt when </think> is the most likely token, or, with noise, when a sampled token is </think>.",
    )
    max_latents: int = Field(64, ge=1, description="Maximum number of latents at inference; </think> is then forced.")


@dataclass
class GaussianMethod(base.Method):
    """What both methods share: the latent head, its loss and its thinker, and sequences with one token per latent."""

    config: Any
    dynamic: ClassVar[bool] = True  # every sample draws the tokens it predicts
    calibrated: ClassVar[tuple[str, ...]] = ("sigma",)
    head: Any = field(default=None, init=False, repr=False)

    @property
    def unit(self) -> float:
        """Sigma, which `attach` has filled in."""
        return self.config.sigma

    def attach(self, backbone: Backbone) -> None:
        from ruplar.engine.gaussian import LatentHead

        if self.config.sigma is None:
            # differs from the paper: D49. It has a table of rounded values by model name; here the matrix is measured
            sigma = float(backbone.embedding_weight.detach().float().std())
            self.config = self.config.model_copy(update={"sigma": sigma})
        width = backbone.embedding_weight.shape[1]
        self.head = LatentHead(width, self.config.head_width or width).to(backbone.device)

    def group_item(
        self, prompt: Prompt, groups: Sequence[list[int]], answer: str, tools: Tools, context: SampleContext
    ) -> Item:
        """A sequence with one latent per group of tokens; its label is one of them, drawn."""
        rng = rng_of("token", *context.key)
        item = base.latent_item(prompt, tools, len(groups), tools.answer(answer))
        start = len(prompt.ids) + 1
        end = start + len(groups)
        item.labels[start:end] = [group[rng.integers(len(group))] for group in groups]
        item.mark_at = [end]
        return item

    def loss(self, backbone: Backbone, batch: Batch) -> Loss:
        """Cross-entropy of one token per latent and of the answer, and the latent head's loss, from one forward pass.

        `batch.mark_at` is the position of every row's `</think>`.
        """
        import torch

        from ruplar import objective
        from ruplar.model.forward import embed, flat_hidden

        c, embeds = self.config, embed(backbone, batch)
        hidden = flat_hidden(backbone, batch, embeds=embeds)
        wanted = batch.label_ids[:, None]
        read = objective.read(backbone.project, hidden[batch.label_at], wanted, fused=backbone.compiled)
        is_latent = torch.zeros(len(hidden), dtype=torch.bool, device=hidden.device).index_fill_(
            0, batch.latent_at, True
        )
        thought = is_latent[batch.label_at + 1]  # [T] labels that belong to a latent
        picked, labels = read.picked[:, 0], batch.totals[0]
        # the head also predicts </think>, which follows the last latent
        target_at = torch.cat([batch.latent_at, batch.mark_at])
        target = embeds.reshape(-1, embeds.shape[-1])[target_at].detach().float() / self.unit
        mean, log_std = self.head(hidden[target_at - 1])
        value = latent_loss(mean, log_std, target, c.latent_loss)
        parts = {
            "answer": c.answer_weight * objective.answer_ce(picked * ~thought, labels),
            "thought": c.answer_weight * objective.answer_ce(picked * thought, labels),
            "latent": c.latent_weight * value.sum() / (batch.totals[1] + batch.totals[2]).clamp_min(1),
        }
        return Loss(parts, _watch(read, batch, thought, backbone.end_think_id))

    def thinker(self, backbone: Backbone) -> GaussianThinker:
        from ruplar.engine.gaussian import GaussianThinker

        c = self.config
        return GaussianThinker(self.head, c.sigma, backbone.end_think_id, c.halt, cap=c.max_latents)

    def modules(self) -> dict[str, nn.Module]:
        return {} if self.head is None else {"head": self.head}


def summed(ids: Sequence[int]) -> SparsePrior:
    """Token ids, with repeats → weights that sum their embeddings and divide by √n.

    The sum of n independent rows is √n times as long as one, so this keeps the embedding's scale.
    """
    counts: dict[int, int] = {}  # a Counter takes twice as long, and this runs for every latent of every sample
    for one in ids:
        counts[one] = counts.get(one, 0) + 1
    weights = np.array(list(counts.values()), dtype=np.float32) / np.float32(math.sqrt(len(ids)))
    return SparsePrior(np.array(list(counts), dtype=np.int64), weights)


def latent_loss(mean: Tensor, log_std: Tensor, target: Tensor, kind: str) -> Tensor:
    """[N, D] each, in units of sigma → [N] the loss of the predicted Gaussian, averaged over D."""
    import torch

    from ruplar.engine.gaussian import log_density

    if kind == "nll":
        return -log_density(mean, log_std, target)
    if kind == "sampled_mse":
        return (mean + log_std.exp() * torch.randn_like(mean) - target).square().mean(-1)
    return ((mean - target).square() + (2 * log_std).exp()).mean(-1)


def _watch(read, batch: Batch, thought: Tensor, end_think_id: int) -> dict[str, Tensor]:
    """Counts for the progress line and the training guard, without synchronising with the device."""
    right = read.top == batch.label_ids
    went_on = ((read.top != end_think_id) & thought).sum()
    is_halt = batch.label_ids == end_think_id
    return {
        "halt_right": went_on + (is_halt & right).sum(),
        "halt_seen": is_halt.sum() + thought.sum(),
        "went_on": went_on,
        "latents": thought.sum(),
        "label_right": (right & ~thought).sum(),
        "labels": (~thought).sum(),
    }
