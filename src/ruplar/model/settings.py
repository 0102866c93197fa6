"""The recipe's `backbone:` and `prompt:` sections → checked settings, without importing torch.

They are separate from `backbone.py` and `prompt.py` so that a recipe can be checked before anything slow is imported.
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
        description="Names (suffixes) of the modules that get an adapter; null: every linear layer except the head.",
    )
    embedding: bool = Field(False, description="Adapt the input embedding too, as the paper does.")
    words: tuple[Name, ...] = Field(
        (), description="Words (one token each) whose embedding rows are trained too, for vocabulary new to the model."
    )

    # differs from the paper: D67. There the second run trains a new adapter on the first run's merged weights
    continue_adapter: bool = Field(
        False, description="Train the adapter of init further, instead of a new one on the merged weights of init."
    )

    @model_validator(mode="after")
    def _rows_or_all(self) -> LoraSettings:
        if self.embedding and self.words:
            raise ValueError("embedding and words exclude each other: the first trains every row; remove one")
        return self


class BackboneConfig(Settings):
    """Which language model is trained, and which of its weights."""

    name: Name = Field("embedded", description="A name of `ruplar list backbones`, a model folder, or a Hub name.")
    weights: Literal["pretrained", "random", "borrowed"] = Field(
        "pretrained",
        description="'random': same architecture and tokenizer, random weights; 'borrowed': layers of the embedded model "
        "under a domain's own tokenizer (embedded-dates, embedded-logic).",
    )
    init: Name | None = Field(
        None, description="Run or model folder to start from (e.g. a CoT-SFT run); its adapter is merged first."
    )
    # differs from the paper: D66. Its models' tokenizers have such groups; single digits cannot give a result an order
    number_tokens: bool = Field(
        False, description="Add a token for every group of two or three digits, and train their embedding rows."
    )
    dtype: Literal["auto", "float32", "bfloat16"] = Field("auto", description="Precision of the weights in memory.")
    attention: Name = Field("sdpa", description="Passed to transformers as attn_implementation.")
    lora: LoraSettings | None = Field(LoraSettings(), description="LoRA adapter to train; null: train all weights.")

    @model_validator(mode="after")
    def _one_start(self) -> BackboneConfig:
        if self.weights != "pretrained" and self.init is not None:
            raise ValueError(f"weights: {self.weights} and init exclude each other; remove one")
        if self.lora is not None and self.lora.continue_adapter and self.init is None:
            raise ValueError(
                "lora.continue_adapter needs init: the run whose adapter is trained further; set it, or remove continue_adapter"
            )
        return self


class PromptConfig(Settings):
    """How the prompt of a question and the text of an answer are written."""

    template: Literal["chat", "plain"] = Field(
        "chat",
        description="'chat': the tokenizer's chat template; 'plain': `Question: … Answer:`, for tokenizers without one.",
    )
    instruction: str = Field(
        "Please reason step by step, and put your final answer within \\boxed{}.",
        description="Text before the question; may be empty.",
    )
    question_repeats: int = Field(
        1,
        ge=1,
        le=4,
        description="Copies of the question in the prompt; a causal model reads the second with the first in context.",
    )
    answer: str = Field("\\boxed{{answer}}", description="Text of the answer; {answer} becomes the reference answer.")

    @field_validator("answer")
    @classmethod
    def _holds_the_answer(cls, text: str) -> str:
        if "{answer}" not in text:
            raise ValueError("must contain {answer}, the place of the reference answer")
        return text
