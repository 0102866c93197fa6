"""The settings of a run, section by section.

Plug-in sections are `{name: X, …settings of X}`. The plug-in's own `Config` checks them and fills in its defaults, so that
the saved config has everything the run depends on.
"""

from typing import Any, ClassVar

import yaml
from pydantic import ConfigDict, Field, ValidationError, field_validator, model_validator

from ruplar import plugins
from ruplar.data.sources import SourceConfig
from ruplar.errors import UserError
from ruplar.model.settings import BackboneConfig, PromptConfig
from ruplar.settings import Settings, explain


class WrongPlugin(ValueError):
    """A section whose plug-in, or a setting of it, does not exist or does not fit."""

    def __init__(self, cause: Exception | str, owner: str = "", config: type[Settings] = Settings):
        super().__init__(str(cause))
        self.cause, self.owner, self.config = cause, owner, config

    def problems(self, path: str) -> list[str]:
        """Return a sentence for each problem of the section at `path`."""
        if not isinstance(self.cause, ValidationError):
            return [f"{path}.name: {self.cause}"]
        return [explain(detail, self.config, prefix=path, owner=self.owner) for detail in self.cause.errors()]


class PluginConfig(Settings):
    """A plug-in's name and settings; `make()` builds it."""

    model_config = ConfigDict(extra="allow")
    KIND: ClassVar[str]
    DEFAULT: ClassVar[str | None] = None  # its name in a section with settings only: `data.domain.rule=published`
    name: str = ""

    @model_validator(mode="before")
    @classmethod
    def _checked(cls, section: Any) -> Any:
        """Turn a bare name into a section, and fill in the plug-in's defaults."""
        section = {"name": section} if isinstance(section, str) else section
        if not isinstance(section, dict):
            return section  # the field checks refuse it
        name = section.get("name", cls.DEFAULT)
        if not isinstance(name, str):
            raise WrongPlugin(f"is required. Known: {', '.join(plugins.names(cls.KIND))}.")
        if "." in name and not all(part.isidentifier() for part in name.split(".")):
            raise WrongPlugin(f"'{name}' is neither a known name nor a Python module, e.g. mypackage.mine.")
        try:
            config = plugins.load(cls.KIND, name).Config
        except UserError as error:
            raise WrongPlugin(error) from error
        try:
            filled = config(**{key: value for key, value in section.items() if key != "name"})
        except ValidationError as error:
            raise WrongPlugin(error, f" of {cls.KIND.removesuffix('s')} {name}", config) from error
        return {"name": name, **filled.model_dump(mode="json")}

    @property
    def settings(self) -> Any:
        return plugins.load(self.KIND, self.name).Config(**(self.model_extra or {}))

    def make(self) -> Any:
        return plugins.make(self.KIND, self.name, self.model_extra)


class DomainConfig(PluginConfig):
    """The domain: what a step is and when an answer is correct."""

    KIND, DEFAULT = "domains", "arithmetic"


class SpansConfig(PluginConfig):
    """How steps are split into latents."""

    KIND, DEFAULT = "spans", "step"


class PriorConfig(PluginConfig):
    """The prior: the target distribution of each latent."""

    KIND, DEFAULT = "priors", "mixture"


class MethodConfig(PluginConfig):
    """How latents are trained and produced."""

    KIND = "methods"


class DataSettings(Settings):
    """Training data and validation set."""

    train: tuple[SourceConfig, ...] = Field(min_length=1, description="Sources of the training chains.")
    valid: SourceConfig | None = Field(None, description="Validation set for selecting checkpoints; never a test set.")
    domain: DomainConfig = Field(
        default_factory=DomainConfig, description="Domain: what a step is and when an answer is correct."
    )
    skip_bad: bool = Field(False, description="Skip and count rows without a usable chain instead of stopping.")
    # differs from the paper: D78. Its chains are as they were written
    canonical_operands: bool = Field(
        False,
        description="Reorder the operands of sums and products: the last result, earlier results, then numbers in question order.",
    )
    exclude_valid: bool = Field(True, description="Drop training rows whose question is also in valid.")
    decontaminate: tuple[str, ...] = Field(
        (), description="Drop training rows that equal or share 13 consecutive words with a question of these sets."
    )

    @field_validator("train", mode="before")
    @classmethod
    def _as_list(cls, value: Any) -> Any:
        return value if isinstance(value, list | tuple) else [value]


class ValidationSettings(Settings):
    """Validation during training; its schedule is `training.eval_strategy` and `training.eval_steps`."""

    questions: int = Field(200, ge=1, description="Questions of data.valid per validation (the first ones).")
    batch_size: int = Field(64, ge=1, description="Batch size: questions answered at once.")
    stop_collapsed: bool = Field(
        True, description="Stop a run whose latents have collapsed; false: continue, e.g. for an ablation."
    )


class SpeedSettings(Settings):
    """Options that make training faster without changing its result."""

    pack: int = Field(0, ge=0, description="Pack sequences into rows of this many positions; 0: no packing.")
    compile: bool = Field(False, description="Compile the layers (torch.compile); the first steps take a minute.")
    graph: bool = Field(
        False, description="On an NVIDIA GPU, replay the layers as CUDA graphs: faster for small models."
    )
    fold_lora: bool = Field(
        False, description="Multiply by W + s·BA instead of by W, A and B: faster for narrow models and large batches."
    )
    pretokenize: bool = Field(
        False,
        description="Tokenize all chains before training, into a cache shared by runs; on demand where epochs differ.",
    )


class RunConfig(Settings):
    """Everything a training run depends on."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", description="Name of the run's folder.")
    seed: int = Field(777, ge=0, lt=2**32, description="Seed of weights, data order and random priors.")
    backbone: BackboneConfig = Field(BackboneConfig(), description="The base model and its adapter.")
    prompt: PromptConfig = Field(PromptConfig(), description="Format of prompts and answers.")
    data: DataSettings = Field(description="Training data and validation set.")
    spans: SpansConfig = Field(default_factory=SpansConfig, description="How steps are split into latents.")
    prior: PriorConfig = Field(default_factory=PriorConfig, description="Target distribution of each latent.")
    method: MethodConfig = Field(description="How latents are trained and produced.")
    training: dict[str, Any] = Field({}, description="Hugging Face TrainingArguments, by name.")
    speed: SpeedSettings = Field(SpeedSettings(), description="Faster training with the same result.")
    validation: ValidationSettings = Field(ValidationSettings(), description="Validation during training.")

    def as_dict(self) -> dict[str, Any]:
        """Return plain data with all defaults; `from_dict` reads it back to an equal config."""
        return self.model_dump(mode="json")


def to_yaml(config: RunConfig) -> str:
    return yaml.safe_dump(config.as_dict(), sort_keys=False, allow_unicode=True, width=100)
