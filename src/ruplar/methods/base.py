"""What every method promises: how an example becomes a training sequence, what it is scored by, how it thinks.

A method is one file. It brings `encode` and `loss` for training and a `Thinker` for use; padding, the training loop,
decoding, scoring and reports are the same for all of them. Methods do not import each other. Its class derives from
`Method` here, which answers everything a plain method need not think about.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from ruplar.types import Batch, Example, Item, Prompt, SampleContext, Span, SparsePrior

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor, nn

    from ruplar.engine.thinker import Thinker
    from ruplar.model.backbone import Backbone


class Tools(Protocol):
    """What `encode` may use: the recipe's prompt, spans and prior behind plain calls."""

    @property
    def think_id(self) -> int:
        """Id of `<think>`."""

    @property
    def end_think_id(self) -> int:
        """Id of `</think>`, the halt token."""

    @property
    def eos_id(self) -> int:
        """Id that ends an answer."""

    def prompt(self, question: str) -> Prompt:
        """The question as the model reads it, up to the opening of the assistant's turn."""

    def encode(self, text: str) -> list[int]:
        """Plain text → ids; it cannot contain a control token."""

    def answer(self, answer: str) -> list[int]:
        """The marked answer in the recipe's answer format, end token included."""

    def spans(self, example: Example) -> list[Span]:
        """The spans of all steps in order: one latent each."""

    def prior(self, span: Span, context: tuple[int, ...]) -> SparsePrior:
        """The span's target distribution; `visit` (epoch, row, latent) seeds priors that draw anew each time."""


@dataclass
class Loss:
    """Named loss parts, each already multiplied by its weight, and figures to watch.

    Attributes:
        parts: Name → scalar tensor with gradient; their sum is what is minimised.
        watch: Name → scalar tensor without gradient: counts and sums that the trainer averages and logs.
    """

    parts: dict[str, Tensor]
    watch: dict[str, Tensor] = field(default_factory=dict)

    @property
    def total(self) -> Tensor:
        """The sum of the parts."""
        return sum(self.parts.values())  # type: ignore[return-value]


class Method(Protocol):
    """A way to train and produce latents.

    Attributes:
        config: Its settings. With a `reset_optimizer` that is true, the optimiser's moments start afresh where the
            stage rises.
        needs_steps: Whether it learns from steps, so that a row without one is bad.
        packs: Whether several of its sequences may share a row (`speed.pack`).
        follows_spans: Whether a thought should have as many latents as its chain has spans.
        calibrated: Settings that `attach` fills in where they are null, and that are kept with the model.
    """

    config: Any
    needs_steps: ClassVar[bool] = True
    packs: ClassVar[bool] = True
    follows_spans: ClassVar[bool] = True
    calibrated: ClassVar[tuple[str, ...]] = ()

    @property
    def label(self) -> str:
        """What tables must call it, where its settings make it another method than its name says; else ""."""
        return ""

    @property
    def dynamic(self) -> bool:
        """Whether `encode` depends on the visit beyond its priors (a curriculum, a draw); if not, items may be kept."""
        return False

    @property
    def draws(self) -> bool:
        """Whether `features` are drawn anew at every visit, where nothing else of an item changes."""
        return False

    def features(self, context: SampleContext, latents: int) -> list[np.ndarray]:
        """The features of an item with so many latents at this visit, for a method that draws them; [] for others."""
        return []

    def attach(self, backbone: Backbone) -> None:
        """Make the extra weights that need the model's width; called once, when the backbone is there.

        The same weights every time: float32, drawn from a seeded generator of their own, on the backbone's device.
        """

    def question(self, text: str, context: SampleContext | None = None) -> str:
        """A question as this method puts it: with the visit's own wording in training, with the settings' in use."""
        return text

    def encode(self, example: Example, tools: Tools, context: SampleContext) -> Item:
        """One example → one training sequence. `visit` is the only source of variation between epochs.

        It may not look at what `attach` makes: chains are encoded where no weights are.
        """

    def encodes_by(self) -> dict[str, Any]:
        """The settings `encode` looks at: where they are equal, so are the sequences. All of them, unless a method knows."""
        return self.config.model_dump(mode="json")

    def loss(self, backbone: Backbone, batch: Batch) -> Loss:
        """The loss of a batch, in parts."""

    def thinker(self, backbone: Backbone) -> Thinker:
        """How this method thinks at inference; the engine runs it."""

    def modules(self) -> dict[str, nn.Module]:
        """Extra weights to train; usually {}, and {} before `attach`."""
        return {}

    def inference_modules(self) -> dict[str, nn.Module]:
        """Those of them that thinking needs, which are saved with a finished model; the others only helped training."""
        return self.modules()

    def rates(self) -> dict[str, float]:
        """Module's name → its share of the learning rate, where that is not 1."""
        return {}

    def stage(self, progress: float) -> int:
        """Which stage of its curriculum a run has reached; it never falls. 0 without a curriculum."""
        return 0


def label_loss(backbone: Backbone, batch: Batch, head_chunk: int = 0) -> Loss:
    """Cross-entropy of every label of the batch: the whole loss of methods that think in text or not at all."""
    from ruplar.model.forward import flat_hidden

    hidden, _ = flat_hidden(backbone, batch)
    return label_loss_at(backbone, batch, hidden[batch.label_at], head_chunk)


def label_loss_at(backbone: Backbone, batch: Batch, hidden: Tensor, head_chunk: int = 0) -> Loss:
    """Cross-entropy of every label of the batch, from the hidden states [T, D] that predict them."""
    from ruplar import objective

    read = objective.read(backbone.logits, hidden, batch.label_ids[:, None], head_chunk)
    watch = {
        "label_right": (read.top == batch.label_ids).sum(),
        "labels": batch.label_ids.new_full((), len(batch.label_ids)),
    }
    return Loss({"answer": objective.answer_ce(read.picked[:, 0], batch.totals[0])}, watch)
