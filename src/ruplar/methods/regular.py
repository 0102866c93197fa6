"""ReGuLaR-T: one latent per step, a projection of frozen text features of the step (ReGuLaR reads images of steps).

    P | <think> | z_1 .. z_N | </think> | answer eos        z_i = projector(features of step i) · sigma

Each latent's position predicts one token of the step that follows, redrawn for every sample, which trains the projector
too; a latent head is trained to predict z_i, as a fixed target. Inference needs only the head.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from pydantic import Field, model_validator

from ruplar.errors import UserError
from ruplar.methods._gaussian import GaussianConfig, GaussianMethod, summed
from ruplar.methods.base import Loss, Tools
from ruplar.types import Batch, Example, Item, SampleContext

if TYPE_CHECKING:
    from torch import Tensor, nn

    from ruplar.model.backbone import Backbone

_GROUPS = (32, 16, 8, 4, 2, 1)
_MIN_GROUP_SIZE = 8


class Config(GaussianConfig):
    """Settings of ReGuLaR-T."""

    # differs from the paper: D53. Its features are a vision encoder's; text features make it another method, ReGuLaR-T
    features: Literal["hidden", "tokens"] = Field(
        "hidden",
        description="Features of a step: the frozen model's mean hidden state, or its summed token embeddings.",
    )
    # differs from the paper: D59. One rate for all, 1e-4; at an adapter's rate the projector collapses to one vector
    projector_rate: float = Field(0.07, gt=0, description="The projector's learning rate, as a factor of the others'.")
    project: bool = Field(True, description="Pass features through the projector; false only with features: tokens.")

    @model_validator(mode="after")
    def _check_projection(self) -> Config:
        if not self.project and self.features != "tokens":
            raise ValueError("project: false needs features: tokens, the only features in the embedding space")
        return self


@dataclass
class Method(GaussianMethod):
    """See the module's docstring."""

    config: Config
    projector: nn.Module | None = field(default=None, init=False, repr=False)

    @property
    def label(self) -> str:
        """The name in tables. Without the projector the latents are CoLaR's, with a step as the group of tokens."""
        return "ReGuLaR-T" if self.config.project else "CoLaR with one group per step"

    def attach(self, backbone: Backbone) -> None:
        super().attach(backbone)
        if self.config.project:
            width = backbone.embedding_weight.shape[1]
            self.projector = make_projector(width, width).to(backbone.device)

    def encode(self, example: Example, tools: Tools, context: SampleContext) -> Item:
        # differs from the paper: D54. Its prompt ends in "(Thinking speed: 1)", always the same and so left out
        prompt = tools.prompt(self.question(example.question, context))
        # differs from the paper: D55. Its step texts may contain markup; here the step without << and >>
        steps = [tools.encode(step) for step in example.steps]
        item = self.group_item(prompt, steps, example.answer, tools, context)
        if self.config.features == "tokens":
            return replace(item, priors=[summed(step) for step in steps])
        return replace(item, also={"steps": [Item(step, [-100] * len(step)) for step in steps]})

    def loss(self, backbone: Backbone, batch: Batch) -> Loss:
        """Cross-entropy and the latent head's loss; its targets are detached, so they do not move towards the head."""
        from ruplar.model.forward import embed

        soft = self._latents(backbone, batch) if len(batch.latent_at) else None
        return self.gaussian_loss(backbone, batch, embed(backbone, batch, soft))

    def _latents(self, backbone: Backbone, batch: Batch) -> Tensor:
        """[M, D] the latents that are fed."""
        features = self._features(backbone, batch)
        latents = features if self.projector is None else self.projector(features).float()
        return latents * self.unit

    def _features(self, backbone: Backbone, batch: Batch) -> Tensor:
        """[M, D] float32 features of the steps, without gradient; those of tokens in units of sigma."""
        import torch

        from ruplar.model.soft_tokens import mix

        if self.config.features == "tokens":
            with torch.no_grad():
                return mix(backbone.embedding, batch.prior_ids, batch.prior_probs).float() / self.unit
        return frozen_means(backbone, batch.also["steps"])

    def rates(self) -> dict[str, float]:
        """Slow the projector down: at the full rate it maps all steps to one vector before the model can use them."""
        return {} if self.projector is None else {"projector": self.config.projector_rate}

    def modules(self) -> dict[str, nn.Module]:
        return super().modules() | ({} if self.projector is None else {"projector": self.projector})


def make_projector(size: int, width: int, seed: int = 0) -> nn.Module:
    """Features [M, F] → [M, D] of unit scale: linear, group norm, GELU, linear, norm over all; deterministic weights.

    The paper's convolutions are 1 × 1 over a single position after its pooling, hence linear layers here. Xavier weights,
    zero biases.
    """
    import torch
    from torch import nn

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        first, last = nn.Linear(size, size), nn.Linear(size, width)
        for layer in (first, last):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)
    # differs from the paper: D56. 32 groups of 40; fewer where a group would be smaller than 8
    groups = next(g for g in _GROUPS if g == 1 or (size % g == 0 and size // g >= _MIN_GROUP_SIZE))
    return nn.Sequential(first, nn.GroupNorm(groups, size), nn.GELU(), last, nn.GroupNorm(1, width))


def frozen_means(backbone: Backbone, steps: Batch) -> Tensor:
    """Texts of steps, one per row → [M, D] float32 mean of the last hidden states of the model without its adapter."""
    import torch

    from ruplar.model.forward import flat_hidden
    from ruplar.model.lora import unadapted

    if not hasattr(backbone.model, "peft_config"):
        raise UserError(
            "method.features: hidden reads the frozen model, but backbone.lora: null trains all of it. Set "
            "method.features: tokens, or set backbone.lora."
        )
    with torch.no_grad(), unadapted(backbone, "method.features: hidden"):  # dropout off too
        hidden = flat_hidden(backbone, steps)
    mask = steps.mask.ne(0).float()
    hidden = hidden.view(*steps.ids.shape, -1).float()
    return (hidden * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
