"""The checked shape of a run: what a recipe may say, section by section.

Plug-in sections are `{name: X, …settings of X}`. They are checked by the plug-in's own `Config`, with its defaults
filled in, so that the written-out config says everything the run depended on.
"""

from __future__ import annotations

from typing import Any, ClassVar

import yaml
from pydantic import ConfigDict, Field, field_validator, model_validator

from ruplar import plugins
from ruplar.data.sources import SourceConfig
from ruplar.model.settings import BackboneConfig, PromptConfig
from ruplar.settings import Settings


class PluginConfig(Settings):
    """A plug-in's name and settings; `make()` builds it."""

    model_config = ConfigDict(extra="allow")
    KIND: ClassVar[str]
    name: str

    @model_validator(mode="before")
    @classmethod
    def _checked(cls, section: Any) -> Any:
        """A bare name is a section with only a name; the plug-in's defaults are filled in."""
        section = {"name": section} if isinstance(section, str) else section
        if not isinstance(section, dict) or not isinstance(section.get("name"), str):
            return section  # refused by the ordinary check
        settings = {key: value for key, value in section.items() if key != "name"}
        filled = plugins.load(cls.KIND, section["name"]).Config(**settings)
        return {"name": section["name"], **filled.model_dump(mode="json")}

    @property
    def settings(self) -> Any:
        """The plug-in's own `Config`."""
        return plugins.load(self.KIND, self.name).Config(**(self.model_extra or {}))

    def make(self) -> Any:
        """The plug-in itself: a `Domain`, `Spans`, `Prior` or `Method`."""
        return plugins.make(self.KIND, self.name, self.model_extra)


class DomainConfig(PluginConfig):
    """What a step and a right answer are."""

    KIND = "domains"


class SpansConfig(PluginConfig):
    """How a step is cut into latents."""

    KIND = "spans"


class PriorConfig(PluginConfig):
    """The distribution each latent is taught."""

    KIND = "priors"


class MethodConfig(PluginConfig):
    """How latents are trained and produced."""

    KIND = "methods"


class DataSettings(Settings):
    """What is trained on, and what checkpoints are chosen on."""

    train: tuple[SourceConfig, ...] = Field(min_length=1, description="Where the training chains come from.")
    valid: SourceConfig | None = Field(None, description="What checkpoints are chosen on; never a test set.")
    domain: DomainConfig = Field(
        default_factory=lambda: DomainConfig(name="arithmetic"), description="What a step and a right answer are."
    )
    skip_bad: bool = Field(False, description="Leave rows without a usable chain out, counted, instead of stopping.")
    # differs from the paper: D78. Its chains are as they were written
    canonical_operands: bool = Field(
        False,
        description="Reorder the operands of sums and products: the last result, earlier results, then numbers in question order.",
    )
    exclude_valid: bool = Field(True, description="Drop training rows whose question also stands in valid.")
    decontaminate: tuple[str, ...] = Field(
        (),
        description="Test sets; training rows that equal one of their questions or share 13 words in a row are dropped.",
    )

    @field_validator("train", mode="before")
    @classmethod
    def _as_list(cls, value: Any) -> Any:
        return value if isinstance(value, list | tuple) else [value]


class ValidationSettings(Settings):
    """How much is asked at each validation; when is `training.eval_strategy` and `training.eval_steps`."""

    questions: int = Field(200, ge=1, description="Questions of data.valid answered each time (the first ones).")
    batch_size: int = Field(64, ge=1, description="Questions answered at a time.")
    stop_collapsed: bool = Field(
        True, description="Stop a run whose latents have collapsed; false: train on, as an ablation may want."
    )


class SpeedSettings(Settings):
    """What makes training faster without changing what is learnt."""

    pack: int = Field(0, ge=0, description="Pack sequences into rows of this many positions; 0: a padded row each.")
    compile: bool = Field(
        False, description="Compile the decoder layers (torch.compile); the first steps take a minute."
    )
    keep: float = Field(
        1.0,
        ge=0,
        le=1,
        description="Compiled: share of activation memory used; the rest is computed again, cheapest first.",
    )
    graph: bool = Field(
        False,
        description="On an NVIDIA GPU, replay the pass through the layers as captured graphs: faster for a small model.",
    )
    fold_lora: bool = Field(
        False,
        description="Multiply by W + s·BA at once instead of by W, A and B: faster for a narrow model and long batches.",
    )
    pretokenize: bool = Field(
        False,
        description="Open and encode all chains before training, into files other runs share; on demand where visits differ.",
    )


class RunConfig(Settings):
    """Everything a training run depends on."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", description="Names the run's folder.")
    seed: int = Field(777, ge=0, lt=2**32, description="Seeds weights, order of rows and priors that draw.")
    backbone: BackboneConfig = Field(BackboneConfig(), description="Which language model, and what of it is trained.")
    prompt: PromptConfig = Field(PromptConfig(), description="How a question is put and an answer written.")
    data: DataSettings = Field(description="Chains to train on.")
    spans: SpansConfig = Field(
        default_factory=lambda: SpansConfig(name="step"), description="How a step is cut into latents."
    )
    prior: PriorConfig = Field(
        default_factory=lambda: PriorConfig(name="mixture"), description="The distribution each latent is taught."
    )
    method: MethodConfig = Field(description="How latents are trained and produced.")
    training: dict[str, Any] = Field({}, description="Hugging Face TrainingArguments by their own names.")
    speed: SpeedSettings = Field(
        SpeedSettings(), description="What makes training faster without changing what is learnt."
    )
    validation: ValidationSettings = Field(ValidationSettings(), description="How much is asked at each validation.")

    def as_dict(self) -> dict[str, Any]:
        """Plain data with every default written out; `from_dict` reads it back to an equal config."""
        return self.model_dump(mode="json")


def to_yaml(config: RunConfig) -> str:
    """The whole config as a recipe."""
    return yaml.safe_dump(config.as_dict(), sort_keys=False, allow_unicode=True, width=100)
