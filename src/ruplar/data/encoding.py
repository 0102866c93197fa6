"""Examples → training items: the encoder that methods use, and a dataset that encodes each row on demand.

Encoding needs a tokenizer but no model, so it runs in data-loader workers; `Encoder` can be pickled.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

from torch.utils.data import Dataset

from ruplar.data.collate import collate
from ruplar.domains.base import Domain
from ruplar.priors.base import MAX_CACHED_SPANS, PriorTable
from ruplar.spans.base import attached, cut_chain
from ruplar.types import Batch, Example, HasMarkers, Item, Markers, SampleContext, Span, SparsePrior

if TYPE_CHECKING:
    import numpy as np

    from ruplar.model.prompt import PromptBuilder

if hasattr(os, "register_at_fork"):
    # a forked data worker that collected garbage of its parent would end: it cannot free a tensor of the GPU
    os.register_at_fork(after_in_child=gc.freeze)


@dataclass
class Encoder(HasMarkers):
    """The recipe's prompt, spans and prior as plain functions: what `Method.encode` may use (`methods.base.Tools`)."""

    prompt: PromptBuilder
    markers: Markers
    domain: Domain
    span_rule: Any
    priors: PriorTable
    _spans: dict[str, list[Span]] = field(default_factory=dict, repr=False)

    def __post_init__(self):
        attached(self.span_rule, self.prompt.plain, self.prompt.tokenizer)

    def encode(self, text: str) -> list[int]:
        """Plain text → ids."""
        return self.prompt.plain(text)

    def answer(self, answer: str) -> list[int]:
        """Answer → ids in the recipe's format, end token included."""
        return [*self.prompt.answer(answer), self.eos_id]

    def spans(self, example: Example) -> list[Span]:
        """Return the spans of all steps in order. Spans of a step are cached unless the rule depends on the whole chain."""
        if hasattr(self.span_rule, "cut_chain"):
            return [span for cut in cut_chain(self.span_rule, example.steps, self.domain) for span in cut]
        out: list[Span] = []
        for step in example.steps:
            found = self._spans.get(step)
            if found is None:
                found = self.span_rule.cut(step, self.domain)
                if len(self._spans) < MAX_CACHED_SPANS:
                    self._spans[step] = found
            out += found
        return out

    def prior(self, span: Span, context: tuple[int, ...]) -> SparsePrior:
        """Return the target distribution of a span."""
        return self.priors.of(span, context)


class EncodingMethod(Protocol):
    """What encoding needs of a method; `methods.base.Method` documents it."""

    @property
    def dynamic(self) -> bool: ...
    @property
    def draws(self) -> bool: ...
    def features(self, context: SampleContext, latents: int) -> list[np.ndarray]: ...
    def encode(self, example: Example, tools: Encoder, context: SampleContext) -> Item: ...
    def encodes_by(self) -> dict[str, Any]: ...


@dataclass
class ChainDataset(Dataset):
    """Examples as training items, encoded on demand.

    With `keep`, items that do not depend on the sample context are cached after their first encoding.
    """

    examples: Sequence[Example]
    method: EncodingMethod
    encoder: Encoder
    keep: bool = True
    _cached: dict[int, Item] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return len(self.examples)

    def __getitem__(self, context: SampleContext) -> Item:
        item = self._cached.get(context.row)
        if item is None:
            item = self.method.encode(self.examples[context.row], self.encoder, context)
            if self.keep and not self.dynamic:
                self._cached[context.row] = item
        elif self.method.draws:
            return replace(item, features=self.method.features(context, len(item.latent_at)))
        return item

    @property
    def dynamic(self) -> bool:
        """Whether a row's tokens or priors differ between epochs, so that it cannot be encoded once and for all."""
        return self.method.dynamic or self.encoder.priors.prior.dynamic

    def lengths(self) -> list[int]:
        """Return the length of each row in characters: good enough to sort by, and needs no encoding."""
        return [len(e.question) + sum(map(len, e.steps)) for e in self.examples]

    def collate(self, items: Sequence[Item], pad_id: int, width: int) -> Batch:
        return collate(items, pad_id, width)
