"""Questions → answers with their thoughts: the few lines most users of the library need.

reasoner = LatentReasoner.from_pretrained("embedded")
[answer] = reasoner.ask(["Tom has 3 bags of 4 apples. How many apples does he have?"], return_latents=True)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

from ruplar.backbone.soft_tokens import readable
from ruplar.engine.fast import FastEngine
from ruplar.engine.options import EngineOptions
from ruplar.engine.reference import Generation, Keep, generate
from ruplar.engine.sampling import Decoding
from ruplar.engine.scheduler import Scheduler
from ruplar.engine.thinker import Thinker
from ruplar.records import Answer, Latent
from ruplar.store import Model, load_model

T = TypeVar("T")
Engine = Literal["auto", "fast", "reference"]
_REFILLS = 8
"""Batches the fast engine is given at a time; latents kept with their logits are made readable after each."""


@dataclass
class LatentReasoner:
    """A model that thinks, ready to be asked.

    Attributes:
        model: The model; its weights must not change while it is asked through the fast engine, which copies them.
        engine: `fast`: slots refilled as they fall free; `reference`: the plain loop, the definition of what is right;
            `auto`: fast on a CPU, the plain loop elsewhere. Both give the same tokens in float32.
    """

    model: Model
    engine: Engine = "auto"
    _fast: tuple[Any, FastEngine | None] = field(default=(None, None), init=False, repr=False)

    @classmethod
    def from_pretrained(
        cls, reference: str | Path, device: str = "cpu", dtype: str = "auto", engine: Engine = "auto"
    ) -> LatentReasoner:
        """Load a model folder, or one that ships with the package: `embedded`, `embedded:cot`, `embedded:no_cot`."""
        return cls(load_model(reference, device, dtype), engine)

    def ask(
        self,
        questions: str | Sequence[str],
        *,
        return_latents: bool = False,
        decoding: Decoding | None = None,
        batch_size: int = 64,
        on_batch: Callable[[int], None] | None = None,
    ) -> list[Answer]:
        """Answer questions, in the order given.

        Args:
            questions: One or many; they are batched by length and come back in their own order.
            return_latents: Also say what each soft token was, in readable tokens.
            decoding: How the answer is decoded; greedy when None.
            batch_size: Questions in one batch.
            on_batch: Called with the number of questions just answered, for progress bars.
        """
        questions = [questions] if isinstance(questions, str) else list(questions)
        batches = self._batches(questions, None, decoding, batch_size, "all" if return_latents else "none", on_batch)
        # made readable batch by batch: the logits of a whole benchmark's latents are gigabytes
        return _in_order(batches, self.answer_of)

    def generate(
        self,
        questions: Sequence[str],
        *,
        thinker: Callable[[list[int]], Thinker] | None = None,
        decoding: Decoding | None = None,
        batch_size: int = 64,
        keep: Keep = "none",
        on_batch: Callable[[int], None] | None = None,
    ) -> list[Generation]:
        """Like `ask`, in ids and tensors.

        Args:
            questions: The questions.
            thinker: Places of a batch's questions → how they think; the method's own way when None.
            decoding: How the answer is decoded; greedy when None.
            batch_size: Questions in one batch.
            keep: What to keep of each latent: `none`, `embeds`, or `all`, its logits too.
            on_batch: Called with the number of questions just answered.
        """
        return _in_order(self._batches(questions, thinker, decoding, batch_size, keep, on_batch), lambda row: row)

    def _batches(
        self,
        questions: Sequence[str],
        thinker: Callable[[list[int]], Thinker] | None,
        decoding: Decoding | None,
        batch_size: int,
        keep: Keep,
        on_batch: Callable[[int], None] | None,
    ) -> Iterator[tuple[list[int], list[Generation]]]:
        """Places of a batch's questions and what came out for them, shortest prompts first."""
        backbone = self.model.backbone
        backbone.model.eval()
        prompts = [backbone.prompt(q) for q in questions]
        order = sorted(range(len(prompts)), key=lambda i: len(prompts[i].ids))
        decoding = decoding or Decoding()
        fast = self._fast_engine(batch_size, keep, decoding) if thinker is None else None
        own = self.model.method.thinker(backbone)
        # the fast engine refills its slots, so it is given several batches at a time
        size = batch_size * (_REFILLS if fast else 1)
        for start in range(0, len(order), size):
            places = order[start : start + size]
            batch = [prompts[i] for i in places]
            # a question's random stream is named by its place among all, so batching changes no draw
            if fast:
                yield places, Scheduler(fast).run_all(batch, places, on_batch)
            else:
                yield places, generate(backbone, thinker(places) if thinker else own, batch, decoding, places, keep)
                if on_batch:
                    on_batch(len(places))

    def _fast_engine(self, slots: int, keep: Keep, decoding: Decoding) -> FastEngine | None:
        """The engine of that size, made once and kept until another is asked for; None where the plain loop serves."""
        backbone = self.model.backbone
        if self.engine == "reference" or (self.engine == "auto" and backbone.device.type != "cpu"):
            return None
        wanted = (slots, keep, decoding.max_answer_tokens)
        if self._fast[0] != wanted:
            self._fast = (None, None)  # its copy of the weights goes before the next one comes
            thinker, options = self.model.method.thinker(backbone), EngineOptions(keep=keep)
            self._fast = (wanted, FastEngine.of(backbone, thinker, decoding, slots, options))
        engine = self._fast[1]
        if engine is not None:
            engine.decoding = decoding
        return engine

    def answer_of(self, row: Generation) -> Answer:
        """Ids and tensors → text and readable latents."""
        backbone, tokenizer = self.model.backbone, self.model.backbone.tokenizer
        ids = row.answer_ids[:-1] if row.ended else row.answer_ids
        latents: tuple[Latent, ...] = ()
        if row.latent_logits and not row.thought_ids:
            import torch

            latents = tuple(readable(torch.stack(row.latent_logits), tokenizer, backbone.end_think_id))
        return Answer(
            text=tokenizer.decode(ids),
            thought=tokenizer.decode(row.thought_ids) if row.thought_ids else "",
            latents=latents,
            latent_count=row.latent_count,
            answer_tokens=len(row.answer_ids),
            forwards=row.forwards,
            halted=row.halted,
            ended=row.ended,
        )


def _in_order(batches: Iterable[tuple[list[int], list[Generation]]], convert: Callable[[Generation], T]) -> list[T]:
    """Batches in any order → one converted row a question, in the questions' order."""
    found: dict[int, T] = {}
    for places, rows in batches:
        found.update(zip(places, map(convert, rows), strict=True))
    return [found[i] for i in range(len(found))]
