"""ReGuLaR: one latent per step, a projection of the step's frozen features; from text features it is ReGuLaR-T.

    P | <think> | z_1 .. z_N | </think> | answer eos        z_i = projector(features of step i) · sigma

Each place is taught one token of the step that follows, drawn anew at every visit, which trains the projector too; a latent
head is taught z_i itself, as a fixed target. Thinking needs the head alone, neither features nor projector.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field, model_validator

from ruplar.errors import UserError
from ruplar.methods import base
from ruplar.methods._features import FeatureFile, write_features
from ruplar.methods._gaussian import GaussianConfig, gaussian_loss, make_head, make_thinker, summed, unit, with_sigma
from ruplar.methods.base import Loss, Tools
from ruplar.priors.base import rng_of
from ruplar.types import Batch, Example, Item, SampleContext

if TYPE_CHECKING:
    from torch import Tensor, nn

    from ruplar.engine.gaussian import GaussianThinker, LatentHead
    from ruplar.model.backbone import Backbone

__all__ = ["Config", "Method", "write_features"]

_GROUPS = (32, 16, 8, 4, 2, 1)
_LEAST = 8


class Config(GaussianConfig):
    """Settings of ReGuLaR and ReGuLaR-T."""

    # differs from the paper: D53. Its features are a vision encoder's; text features make it another method, ReGuLaR-T
    features: Literal["hidden", "tokens", "visual"] = Field(
        "hidden",
        description="Of a step: the frozen model's mean hidden state, its summed token embeddings (both ReGuLaR-T), or "
        "vectors from feature_file.",
    )
    feature_file: str | None = Field(
        None, description="With features: visual, a .safetensors or .npz file; see docs/method.md."
    )
    feature_width: int | None = Field(
        None, ge=1, description="Length of the stored vectors; null: read from feature_file, and kept with the model."
    )
    # differs from the paper: D59. One rate for all, 1e-4; at a rate made for adapters the projector comes to one vector
    projector_rate: float = Field(0.07, gt=0, description="The projector's share of the learning rate.")
    project: bool = Field(True, description="Pass features through the projector; false only for tokens.")

    @model_validator(mode="after")
    def _fits(self) -> Config:
        if (self.features == "visual") != (self.feature_file is not None):
            raise ValueError("features: visual and feature_file go together; give both or neither")
        if not self.project and self.features != "tokens":
            raise ValueError("project: false needs features: tokens, the only ones of the embedding's own kind")
        return self


@dataclass
class Method(base.Method):
    """See the module's docstring."""

    config: Config
    needs_steps: ClassVar[bool] = True
    calibrated: ClassVar[tuple[str, ...]] = ("sigma", "feature_width")
    head: LatentHead | None = field(default=None, init=False, repr=False)
    projector: nn.Module | None = field(default=None, init=False, repr=False)
    stored: FeatureFile | None = field(default=None, init=False, repr=False)

    def __post_init__(self):
        if self.config.feature_file is not None:
            self.stored = FeatureFile(Path(self.config.feature_file))

    @property
    def label(self) -> str:
        """The name in tables: text features are never reported as ReGuLaR."""
        return "ReGuLaR" if self.config.features == "visual" else "ReGuLaR-T"

    @property
    def dynamic(self) -> bool:
        """Every visit draws the tokens that are taught."""
        return True

    def attach(self, backbone: Backbone) -> None:
        """Measure the embedding, make the latent head and the projector."""
        config, width = with_sigma(self.config, backbone), backbone.embedding_weight.shape[1]
        if self.stored is not None and self.config.feature_width is None:
            # kept with the model, so that it can be used where the file is not
            config = config.model_copy(update={"feature_width": self.stored.width})
        self.config = config  # type: ignore[assignment]
        self.head = make_head(self.config, backbone)
        if self.config.project:
            self.projector = make_projector(self.config.feature_width or width, width).to(backbone.device)

    def encode(self, example: Example, tools: Tools, context: SampleContext) -> Item:
        """One latent per step."""
        # differs from the paper: D54. Its prompt ends in "(Thinking speed: 1)", always the same and so left out
        prompt = tools.prompt(example.question)
        # differs from the paper: D55. Its step texts may hold markup; here the step without << and >>
        steps, rng = [tools.encode(step) for step in example.steps], rng_of("token", *context.key)
        tail = [tools.end_think_id, *tools.answer(example.answer)]
        start = len(prompt.ids) + 1
        end = start + len(steps)
        kind = self.config.features
        return Item(
            ids=[*prompt.ids, *([tools.think_id] * (1 + len(steps))), *tail],
            labels=[*([-100] * start), *(step[rng.integers(len(step))] for step in steps), *tail],
            latent_at=list(range(start, end)),
            priors=[summed(step) for step in steps] if kind == "tokens" else [],
            question_at=prompt.question_at,
            mark_at=[end],
            features=[self.stored[step] for step in example.steps] if self.stored is not None else [],
            also={"steps": [Item(step, [-100] * len(step)) for step in steps]} if kind == "hidden" else {},
        )

    def loss(self, backbone: Backbone, batch: Batch) -> Loss:
        """Cross-entropy and the latent head's loss, whose targets are detached: they do not move to be easy to hit."""
        from ruplar.model.forward import embed

        assert self.head is not None, "attach comes first"
        soft = self._latents(backbone, batch) if len(batch.latent_at) else None
        return gaussian_loss(backbone, batch, embed(backbone, batch, soft), self.head, self.config)

    def _latents(self, backbone: Backbone, batch: Batch) -> Tensor:
        """[M, D] what the steps' places read."""
        features = self._features(backbone, batch)
        if self.projector is None:
            return features * unit(self.config)
        return self.projector(features).float() * unit(self.config)

    def _features(self, backbone: Backbone, batch: Batch) -> Tensor:
        """[M, F] float32, frozen; those of tokens in units of sigma."""
        import torch

        from ruplar.model.soft_tokens import mix

        if self.config.features == "visual":
            return batch.features
        if self.config.features == "tokens":
            with torch.no_grad():
                return mix(backbone.embedding, batch.prior_ids, batch.prior_probs).float() / unit(self.config)
        return frozen_means(backbone, batch.also["steps"])

    def thinker(self, backbone: Backbone) -> GaussianThinker:
        """Latents from the head."""
        assert self.head is not None, "attach comes first"
        return make_thinker(self.config, self.head, backbone)

    def rates(self) -> dict[str, float]:
        """A projector that is fast learns to say the same of every step before the model can read what it says."""
        return {} if self.projector is None else {"projector": self.config.projector_rate}

    def modules(self) -> dict[str, nn.Module]:
        """The latent head and the projector."""
        made = {"head": self.head, "projector": self.projector}
        return {name: module for name, module in made.items() if module is not None}


def make_projector(size: int, width: int, seed: int = 0) -> nn.Module:
    """Features [M, F] → [M, D] of unit scale: linear, group norm, GELU, linear, layer-wide norm; the same every time.

    The paper's convolutions are 1 × 1 over one place after its pooling, so linear layers; Xavier weights, zero biases.
    """
    import torch
    from torch import nn

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        first, last = nn.Linear(size, size), nn.Linear(size, width)
        for layer in (first, last):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)
    # differs from the paper: D56. 32 groups of 40; fewer where a group would hold less than 8 numbers, whose norm says little
    groups = next(g for g in _GROUPS if g == 1 or (size % g == 0 and size // g >= _LEAST))
    return nn.Sequential(first, nn.GroupNorm(groups, size), nn.GELU(), last, nn.GroupNorm(1, width))


def frozen_means(backbone: Backbone, steps: Batch) -> Tensor:
    """Texts of steps, one a row → [M, D] float32 mean of the last hidden states of the model without its adapter.

    Raises:
        UserError: There is no adapter, so that the model under training is not frozen.
    """
    import torch

    from ruplar.model.forward import flat_hidden
    from ruplar.model.lora import unadapted

    if not hasattr(backbone.model, "peft_config"):
        raise UserError(
            "method.features: hidden reads the frozen model, but backbone.lora: null trains all of it. Set "
            "method.features: tokens, or train an adapter."
        )
    with torch.no_grad(), unadapted(backbone, "method.features: hidden"):  # frozen means without dropout too
        hidden, _ = flat_hidden(backbone, steps)
    kept = steps.mask.ne(0).float()
    hidden = hidden.view(*steps.ids.shape, -1).float()
    return (hidden * kept[..., None]).sum(1) / kept.sum(1, keepdim=True)
