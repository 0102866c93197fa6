"""What every method promises: how an example becomes a training sequence, what it is scored by, how it thinks.

A method is one file. It brings `encode` and `loss` for training and a `Thinker` for use; padding, the training loop,
decoding, scoring and reports are the same for all of them. Methods do not import each other.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from ruplar.records import Batch, Example, Item, Prompt, Span, SparsePrior

if TYPE_CHECKING:
    from torch import Tensor, nn

    from ruplar.backbone.load import Backbone
    from ruplar.engine.thinker import Thinker


class Tools(Protocol):
    """What `encode` may use: the recipe's prompt, spans and prior behind plain calls."""

    think_id: int
    end_think_id: int
    eos_id: int

    def prompt(self, question: str) -> Prompt:
        """The question as the model reads it, up to the opening of the assistant's turn."""

    def encode(self, text: str) -> list[int]:
        """Plain text → ids; it cannot contain a control token."""

    def answer(self, answer: str) -> list[int]:
        """The marked answer in the recipe's answer format, end token included."""

    def spans(self, example: Example) -> list[Span]:
        """The spans of all steps in order: one latent each."""

    def prior(self, span: Span, visit: tuple[int, ...]) -> SparsePrior:
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
        config: Its settings.
        needs_steps: Whether it learns from steps, so that a row without one is bad.
    """

    config: Any
    needs_steps: ClassVar[bool]

    def encode(self, example: Example, tools: Tools, visit: tuple[int, int]) -> Item:
        """One example → one training sequence. `visit` is (epoch, row), the only source of variation between epochs."""

    def loss(self, backbone: Backbone, batch: Batch) -> Loss:
        """The loss of a batch, in parts."""

    def thinker(self, backbone: Backbone) -> Thinker:
        """How this method thinks at inference; the engine runs it."""

    def modules(self) -> dict[str, nn.Module]:
        """Extra weights to train and save; usually {}."""


def label_loss(backbone: Backbone, batch: Batch, head_chunk: int = 0) -> Loss:
    """Cross-entropy of every label of the batch: the whole loss of methods that think in text or not at all."""
    from ruplar import objective
    from ruplar.backbone.forward import flat_hidden

    hidden, _ = flat_hidden(backbone, batch)
    read = objective.read(backbone.logits, hidden[batch.label_at], batch.label_ids[:, None], head_chunk)
    watch = {
        "label_right": (read.top == batch.label_ids).sum(),
        "labels": batch.label_ids.new_full((), len(batch.label_ids)),
    }
    return Loss({"answer": objective.answer_ce(read.picked[:, 0], batch.totals[0])}, watch)
