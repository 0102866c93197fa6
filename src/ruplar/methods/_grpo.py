"""Settings of CoLaR's GRPO stage; `train/grpo.py` implements it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from ruplar.settings import Settings


class GrpoConfig(Settings):
    """Group relative policy optimisation over latents and answer, without a KL to the initial model."""

    rounds: int = Field(64, ge=1, description="Rounds of rollouts and updates.")
    questions: int = Field(8, ge=1, description="Questions per round.")
    group: int = Field(8, ge=2, description="Rollouts per question, whose rewards are compared.")
    rows: int = Field(8, ge=1, description="Rollouts per optimizer step; a round has questions x group / rows steps.")
    clip: float = Field(0.2, gt=0, lt=1, description="The policy ratio is clipped to 1 ± this.")
    learning_rate: float = Field(1e-6, gt=0, description="Learning rate, constant.")
    weight_decay: float = Field(0.01, ge=0, description="Weight decay of AdamW.")
    max_grad_norm: float = Field(1.0, gt=0, description="Gradients are clipped to this norm.")
    reward: Literal["right", "right_per_latent"] = Field(
        "right", description="1 for a correct answer, or 1 / its number of latents, which rewards short thoughts."
    )
    average: Literal["token", "sum"] = Field(
        "token", description="Average a rollout's terms, which shortens thoughts, or sum them and divide by 32."
    )
    max_answer_tokens: int = Field(64, ge=1, description="Maximum number of answer tokens of a rollout.")
    validate_every: int = Field(16, ge=1, description="Rounds between validations; the best model is saved.")
