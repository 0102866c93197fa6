"""Settings of the reinforcement stage; `train/grpo.py` carries it out."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from ruplar.settings import Settings


class GrpoConfig(Settings):
    """Group relative policy optimisation over thought and answer; no KL to the model it starts from."""

    rounds: int = Field(64, ge=1, description="Rounds of asking and learning.")
    questions: int = Field(8, ge=1, description="Questions asked in a round.")
    group: int = Field(8, ge=2, description="Thoughts drawn of each question; they are judged against each other.")
    rows: int = Field(8, ge=1, description="Thoughts of one optimiser step; a round takes questions x group / rows.")
    clip: float = Field(0.2, gt=0, lt=1, description="A step moves no probability beyond 1 ± this times the old one.")
    learning_rate: float = Field(1e-6, gt=0, description="Constant.")
    weight_decay: float = Field(0.01, ge=0, description="Of AdamW.")
    max_grad_norm: float = Field(1.0, gt=0, description="Gradients are clipped to this norm.")
    reward: Literal["right", "right_per_latent"] = Field(
        "right", description="1 for a right answer, or 1 over its latents, which rewards short thoughts."
    )
    average: Literal["token", "sum"] = Field(
        "token", description="A thought's terms are averaged, which shortens thoughts, or summed and divided by 32."
    )
    max_answer_tokens: int = Field(64, ge=1, description="A drawn answer is cut here.")
    validate_every: int = Field(16, ge=1, description="Rounds between validations; the best model is kept.")
