"""The interface of a method: how an example becomes a training sequence, its loss, and how it thinks at inference.

A method is one file. It provides `encode` and `loss` for training and a `Thinker` for inference; collation, the training
loop, decoding, scoring and reports are shared by all methods. Methods do not import each other. A method's class derives
from `Method`, which has defaults for everything a simple method does not need.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias

from ruplar.types import Batch, Example, HasMarkers, Item, Prompt, SampleContext

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor, nn

    from ruplar.data.encoding import Encoder
    from ruplar.engine.thinker import Thinker
    from ruplar.model.backbone import Backbone


Tools: TypeAlias = "Encoder"
"""What `encode` may use: the recipe's prompt, spans and prior as plain functions."""


@dataclass
class Loss:
    """Named loss parts, already multiplied by their weights, and metrics."""

    parts: dict[str, Tensor]  # name → scalar tensor with gradient; their sum is minimised
    # name → scalar tensor without gradient: counts and sums that the trainer averages and logs
    watch: dict[str, Tensor] = field(default_factory=dict)

    @property
    def total(self) -> Tensor:
        return sum(self.parts.values())  # type: ignore[return-value]


class Method(Protocol):
    """A way to train and produce latents.

    Attributes:
        config: Its settings. If they have a `reset_optimizer` that is true, the optimizer state is reset whenever the
            stage increases.
        needs_steps: Whether it learns from steps, so that an example without steps is an error.
        packs: Whether several of its sequences may share a row (`speed.pack`).
        follows_spans: Whether a thought should have as many latents as its chain has spans.
        calibrated: Settings that `attach` measures where they are null, and that are saved with the model.
    """

    config: Any
    needs_steps: ClassVar[bool] = True
    packs: ClassVar[bool] = True
    follows_spans: ClassVar[bool] = True
    calibrated: ClassVar[tuple[str, ...]] = ()

    @property
    def label(self) -> str:
        """The name for tables where the settings make it a variant of its own; "" otherwise."""
        return ""

    @property
    def dynamic(self) -> bool:
        """Whether `encode` depends on the sample context beyond its priors; if not, encoded items can be cached."""
        return False

    @property
    def draws(self) -> bool:
        """Whether only the `features` of an item are redrawn for every sample."""
        return False

    def features(self, context: SampleContext, latents: int) -> list[np.ndarray]:
        """Draw the features of an item with this many latents; [] for methods without drawn features."""
        return []

    def attach(self, backbone: Backbone) -> None:
        """Make the extra weights, which need the model's width; called once, after the backbone is loaded.

        The weights must be deterministic: float32, from a seeded generator of their own, on the backbone's device.
        """

    def question(self, text: str, context: SampleContext | None = None) -> str:
        """The question as the prompt states it: for a training sample with its context, for inference without."""
        return text

    @abstractmethod
    def encode(self, example: Example, tools: Tools, context: SampleContext) -> Item:
        """Example → training sequence. `context` is the only source of variation between epochs.

        It must not use what `attach` makes: examples are encoded in processes without weights.
        """

    def encodes_by(self) -> dict[str, Any]:
        """The settings that `encode` depends on: equal settings give equal sequences. By default all of them."""
        return self.config.model_dump(mode="json")

    def loss(self, backbone: Backbone, batch: Batch) -> Loss:
        """Batch → its loss, in parts; by default the cross-entropy of all labels."""
        return label_loss(backbone, batch)

    @abstractmethod
    def thinker(self, backbone: Backbone) -> Thinker:
        """How this method thinks at inference; the engine runs it."""

    def modules(self) -> dict[str, nn.Module]:
        """Extra modules by name, which are trained and saved with the model; {} before `attach`."""
        return {}

    def stage(self, progress: float) -> int:
        """Progress of the run, 0 to 1 → stage of the curriculum, which never decreases; 0 without a curriculum."""
        return 0


def text_item(prompt: Prompt, head: Sequence[int], written: Sequence[int]) -> Item:
    """A sequence without latents: the prompt and `head` without labels, then what the model learns to write."""
    context = [*prompt.ids, *head]
    return Item([*context, *written], [*[-100] * len(context), *written], question_at=prompt.question_at)


def latent_item(prompt: Prompt, markers: HasMarkers, latents: int, answer: Sequence[int], halts: bool = True) -> Item:
    """[ prompt <think> z .. z </think> answer ]; `</think>` has a label only if the model itself decides to halt."""
    start = len(prompt.ids) + 1
    end = start + latents
    return Item(
        ids=[*prompt.ids, *[markers.think_id] * (1 + latents), markers.end_think_id, *answer],
        labels=[*[-100] * end, markers.end_think_id if halts else -100, *answer],
        latent_at=list(range(start, end)),
        question_at=prompt.question_at,
    )


def chain_text(steps: Sequence[str]) -> str:
    """Steps → the chain as text: `<<3+4=7>> <<7*2=14>>`."""
    return " ".join(f"<<{step}>>" for step in steps)


def label_loss(backbone: Backbone, batch: Batch) -> Loss:
    """Cross-entropy of all labels of the batch: the loss of methods without latents."""
    from ruplar.model.forward import flat_hidden

    hidden = flat_hidden(backbone, batch)
    return label_loss_at(backbone, batch, hidden[batch.label_at])


def label_loss_at(backbone: Backbone, batch: Batch, hidden: Tensor) -> Loss:
    """Cross-entropy of all labels of the batch, from the hidden states [T, D] that predict them."""
    from ruplar import objective

    read = objective.read(backbone.project, hidden, batch.label_ids[:, None], fused=backbone.compiled)
    watch = {
        "label_right": (read.top == batch.label_ids).sum(),
        "labels": batch.label_ids.new_full((), len(batch.label_ids)),
    }
    return Loss({"answer": objective.answer_ce(read.picked[:, 0], batch.totals[0])}, watch)
