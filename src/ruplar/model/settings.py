"""The recipe's `backbone:` and `prompt:` sections → checked settings, without importing torch.

They stand apart from `load.py` and `prompt.py` so that a recipe can be checked in a moment, before anything heavy loads.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from ruplar.settings import Settings

Name = Annotated[str, Field(min_length=1)]


class LoraSettings(Settings):
    """Low-rank adapters (PEFT)."""

    rank: int = Field(32, ge=1, description="Rank of each adapter.")
    alpha: int = Field(64, ge=1, description="Scale: the adapter's output is multiplied by alpha / rank.")
    dropout: float = Field(0.1, ge=0, lt=1, description="Dropout on the adapter's input.")
    targets: tuple[Name, ...] | None = Field(
        None,
        min_length=1,
        description="Module names (their ends) that get an adapter; null: every linear layer but the head.",
    )
    embedding: bool = Field(False, description="Adapt the input embedding too, as the paper lists it.")
    words: tuple[Name, ...] = Field(
        (),
        description="Words whose embedding rows are trained too, for a vocabulary the model has not met; one token each.",
    )

    # differs from the paper: D67. There the second run's adapter stands on the first one's weights
    continue_adapter: bool = Field(
        False,
        description="Train the adapter of init further, instead of a fresh one on init's merged weights; it stays one adapter.",
    )

    @model_validator(mode="after")
    def _rows_or_all(self) -> LoraSettings:
        if self.embedding and self.words:
            raise ValueError("embedding and words exclude each other: an adapted embedding moves every row; drop one")
        return self


class BackboneConfig(Settings):
    """Which language model is trained, and what of it."""

    name: Name = Field("embedded", description="A name of `ruplar list backbones`, a model folder, or a Hub name.")
    weights: Literal["pretrained", "random", "borrowed"] = Field(
        "pretrained",
        description="'random': the same architecture and tokenizer with fresh weights; 'borrowed': the embedded model's "
        "layers under a domain's own tokenizer (embedded-dates, embedded-logic).",
    )
    init: Name | None = Field(
        None, description="A run or model folder (a CoT-SFT run, say) whose weights are loaded and merged first."
    )
    # differs from the paper: D66. Its models' tokenizers have such groups; those with digit tokens cannot order a result
    number_tokens: bool = Field(
        False, description="Add a token for every group of two or three digits, and train their rows."
    )
    dtype: Literal["auto", "float32", "bfloat16"] = Field("auto", description="Precision the weights are held in.")
    attention: Name = Field("sdpa", description="Passed to transformers as attn_implementation.")
    lora: LoraSettings | None = Field(LoraSettings(), description="Adapters to train; null trains all weights.")

    @model_validator(mode="after")
    def _one_start(self) -> BackboneConfig:
        if self.weights != "pretrained" and self.init is not None:
            raise ValueError(f"weights: {self.weights} and init exclude each other; drop one of the two")
        if self.lora is not None and self.lora.continue_adapter and self.init is None:
            raise ValueError(
                "lora.continue_adapter trains the adapter of init further; set init to its run, or drop continue_adapter"
            )
        return self


class PromptConfig(Settings):
    """How a question is put to the model, and how its answer is written."""

    template: Literal["chat", "plain"] = Field(
        "chat",
        description="'chat': the tokenizer's own chat template; 'plain': `Question: … Answer:`, for models without one.",
    )
    instruction: str = Field(
        "Please reason step by step, and put your final answer within \\boxed{}.",
        description="Stands above the question; may be empty.",
    )
    question_repeats: int = Field(
        1,
        ge=1,
        le=4,
        description="Times the question is written. A causal model knows what is asked from the second on.",
    )
    answer: str = Field("\\boxed{{answer}}", description="Text of the answer; {answer} stands for the marked answer.")

    @field_validator("answer")
    @classmethod
    def _holds_the_answer(cls, text: str) -> str:
        if "{answer}" not in text:
            raise ValueError("must contain {answer}, where the marked answer goes")
        return text
