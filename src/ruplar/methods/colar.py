"""CoLaR: each latent is the summed embedding of c tokens of the chain; the prompt states c.

    P "(Thinking speed: c)" | <think> | z_1 .. z_G | </think> | answer eos       z_g = sum of c token embeddings / √c

Each latent's position predicts one token of the group that follows, redrawn for every sample, and a latent head predicts
the group's embedding. Training draws c from 1 to `max_speed`, so one model works at every speed; `method.speed` chooses.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from ruplar.methods import base
from ruplar.methods._gaussian import GaussianConfig, GaussianMethod, summed
from ruplar.methods.base import Tools
from ruplar.priors.base import rng_of
from ruplar.settings import Settings
from ruplar.types import Batch, Example, Item, SampleContext

if TYPE_CHECKING:
    from torch import Tensor

    from ruplar.engine.gaussian import GaussianThinker
    from ruplar.model.backbone import Backbone


class GrpoConfig(Settings):
    """Group relative policy optimisation over latents and answer, without a KL to the initial model."""

    rounds: int = Field(64, ge=1, description="Rounds of rollouts and updates.")
    questions: int = Field(8, ge=1, description="Questions per round.")
    group: int = Field(8, ge=2, description="Rollouts per question, whose rewards are compared.")
    rows: int = Field(8, ge=1, description="Rollouts per optimizer step; a round has questions x group / rows steps.")
    learning_rate: float = Field(1e-6, gt=0, description="Learning rate, constant.")
    max_answer_tokens: int = Field(64, ge=1, description="Maximum number of answer tokens of a rollout.")
    validate_every: int = Field(16, ge=1, description="Rounds between validations; the best model is saved.")


class Config(GaussianConfig):
    """Settings of CoLaR."""

    speed: int = Field(5, ge=1, description="Chain tokens per latent at inference: the c of CoLaR-c.")
    max_speed: int = Field(5, ge=1, description="Training draws the speed of every sample from 1 to this.")
    grpo: GrpoConfig | None = Field(None, description="Train with GRPO, the second stage; start it with `init`.")


@lru_cache(maxsize=256)  # question and chain of a sample need the same draw
def _drawn(key: tuple[int, ...], most: int) -> int:
    return int(rng_of("speed", *key).integers(1, most + 1))


@dataclass
class Method(GaussianMethod):
    """See the module's docstring."""

    config: Config
    follows_spans: ClassVar[bool] = False

    @property
    def label(self) -> str:
        """The name in tables: CoLaR-5, CoLaR-2. One model gives several rows."""
        return f"CoLaR-{self.config.speed}"

    def question(self, text: str, context: SampleContext | None = None) -> str:
        """Append the thinking speed: the drawn one in training, `method.speed` at inference."""
        # differs from the paper: D45. It writes this after "Let's think step by step:", outside any chat template
        return f"{text} (Thinking speed: {self.config.speed if context is None else self._speed(context)})"

    def _speed(self, context: SampleContext) -> int:
        # differs from the paper: D46. It draws one speed for a whole batch
        return _drawn(context.key, self.config.max_speed)

    def encode(self, example: Example, tools: Tools, context: SampleContext) -> Item:
        """Encode the chain as CoT-SFT writes it, in groups of as many tokens as the sample's speed."""
        prompt = tools.prompt(self.question(example.question, context))
        chain = tools.encode(base.chain_text(example.steps))
        speed = self._speed(context)
        groups = [chain[at : at + speed] for at in range(0, len(chain), speed)]
        item = self.group_item(prompt, groups, example.answer, tools, context)
        return replace(item, priors=[summed(group) for group in groups])

    def explorer(self, backbone: Backbone) -> GaussianThinker:
        """The thinker of GRPO rollouts: with noise, the halt is sampled too."""
        return replace(self.thinker(backbone), halt="sample")

    def policy(self, backbone: Backbone, batch: Batch) -> tuple[Tensor, Tensor]:
        """Log-probabilities of sampled latents [M], given as `batch.features` in units of sigma, and of labels [T].

        A latent's is averaged over its width, as published; summed, it would outweigh every token's.
        """
        from ruplar import objective
        from ruplar.engine.gaussian import log_density
        from ruplar.model.forward import embed, flat_hidden

        embeds = embed(backbone, batch, batch.features * self.unit)
        hidden = flat_hidden(backbone, batch, embeds=embeds)
        mean, log_std = self.head(hidden[batch.latent_at - 1])
        read = objective.read(
            backbone.project, hidden[batch.label_at], batch.label_ids[:, None], fused=backbone.compiled
        )
        return log_density(mean, log_std, batch.features), read.picked[:, 0]
