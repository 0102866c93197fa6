"""Questions → answers with their thoughts: the few lines most users of the library need.

reasoner = LatentReasoner.from_pretrained("embedded")
[answer] = reasoner.ask(["Tom has 3 bags of 4 apples. How many apples does he have?"], return_latents=True)
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Literal, TypeVar

from ruplar.engine.fast import FastEngine
from ruplar.engine.options import EngineOptions
from ruplar.engine.reference import Generation, Keep, generate
from ruplar.engine.sampling import SAMPLE_NOISE, Decoding
from ruplar.engine.scheduler import Scheduler
from ruplar.engine.thinker import TextThinker, Thinker, room
from ruplar.errors import UserError
from ruplar.model.soft_tokens import readable
from ruplar.model.store import Model, load_model
from ruplar.types import Answer, Latent, Prompt

log = logging.getLogger(__name__)

T = TypeVar("T")
Engine = Literal["auto", "fast", "reference"]
_REFILLS = 8
"""Batches the fast engine is given at a time; latents kept with their logits are made readable after each."""
_READ_AT_ONCE = 64
"""Rows whose latents are made readable together; each holds logits over the whole vocabulary a latent."""
_SHOWN = 20
"""Tokens told of each latent: enough for every figure drawn of a record."""


@dataclass
class LatentReasoner:
    """A model that thinks, ready to be asked.

    Attributes:
        model: The model; its weights must not change while it is asked through the fast engine, which copies them.
        engine: `fast`: slots refilled as they fall free; `reference`: the plain loop, the definition of what is right;
            `auto`: fast on a CPU or an NVIDIA GPU where it knows the model's layers and they read as far back as the
            questions are long, else the plain loop. Both give the same tokens in float32; in bfloat16 a near tie may fall
            the other way (docs/results.md, "Speed", says how often).
    """

    model: Model
    engine: Engine = "auto"
    _fast: tuple[Any, FastEngine | None] = field(default=(None, None), init=False, repr=False)

    @classmethod
    def from_pretrained(
        cls,
        reference: str | Path,
        device: str = "cpu",
        dtype: str = "auto",
        engine: Engine = "auto",
        settings: Mapping[str, Any] | None = None,
    ) -> LatentReasoner:
        """Load a model folder, or one that ships with the package: `embedded`, `embedded:cot`, `embedded:no_cot`.

        `settings` of its method take the place of those it was saved with, e.g. `{"speed": 2}` for CoLaR.
        """
        return cls(load_model(reference, device, dtype, settings), engine)

    def warm_up(
        self,
        *,
        return_latents: bool = False,
        decoding: Decoding | None = None,
        batch_size: int = 64,
        samples: int = 1,
    ) -> None:
        """Make now what the first question would wait for, the engine and its copy of the weights.

        Args:
            return_latents: As the questions will be asked.
            decoding: The same.
            batch_size: The same.
            samples: The same.
        """
        self._settle()
        self._fast_engine(samples, _How(decoding or Decoding(), batch_size, self._kept(return_latents), None, samples))

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
        how = _How(decoding or Decoding(), batch_size, self._kept(return_latents), on_batch)
        # made readable batch by batch: the logits of a whole benchmark's latents are gigabytes
        return _in_order(self._batches(questions, how), self.answers_of)

    def sample(
        self,
        questions: str | Sequence[str],
        samples: int,
        *,
        return_latents: bool = False,
        decoding: Decoding | None = None,
        batch_size: int = 64,
        on_batch: Callable[[int], None] | None = None,
    ) -> list[list[Answer]]:
        """Think each question through several times, from one reading of it → a list of answers a question.

        Sample s of question q draws from (seed, q, s) alone, so asking for more samples adds to the first ones. What they
        agree on is told by `ruplar.evaluate.score.majority`.

        Args:
            questions: One or many.
            samples: Answers to each.
            return_latents: Also say what each soft token was; with noise, what it became.
            decoding: The noise of the thoughts, and how answers are decoded; `SAMPLE_NOISE` and greedy when None.
            batch_size: Answers in one batch.
            on_batch: Called with the number of answers just given.

        Raises:
            UserError: `samples` is below 1, nothing is drawn, or the method's thoughts take no noise.
        """
        questions = [questions] if isinstance(questions, str) else list(questions)
        decoding = decoding or Decoding(noise=SAMPLE_NOISE)
        check_samples(samples, decoding)
        how = _How(decoding, batch_size, self._kept(return_latents), on_batch, samples)
        flat = _in_order(self._batches(questions, how), self.answers_of)
        return [flat[at : at + samples] for at in range(0, len(flat), samples)]

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
        how = _How(decoding or Decoding(), batch_size, keep, on_batch)
        return _in_order(self._batches(questions, how, thinker), lambda rows: rows)

    def _batches(
        self, questions: Sequence[str], how: _How, thinker: Callable[[list[int]], Thinker] | None = None
    ) -> Iterator[tuple[list[tuple[int, int]], list[Generation]]]:
        """(Place, sample) of a batch's rows and what came out for them, shortest prompts first."""
        backbone = self.model.backbone
        self._settle()
        prompts = [self.model.prompt(question) for question in questions]
        order = sorted(range(len(prompts)), key=lambda i: len(prompts[i].ids))
        if order:
            self._check_room(order[-1], prompts[order[-1]], how.decoding)
        fast = self._fast_engine(len(order) * how.samples, how) if order and thinker is None else None
        if fast and self.engine == "auto" and not fast.has_room(fast.need(prompts[order[-1]], how.decoding)):
            fast = None
        own = self.model.method.thinker(backbone)
        # the fast engine refills its slots, so it is given several batches at a time; samples of a question stay together
        size = max(1, how.batch_size * (_REFILLS if fast else 1) // how.samples)
        for start in range(0, len(order), size):
            places = order[start : start + size]
            # a row's random stream is named by its question's place among all and its sample, so batching changes no draw
            names = [(i, sample) for i in places for sample in range(how.samples)]
            batch = [prompts[i] for i, _ in names]
            if fast:
                yield names, Scheduler(fast).run_all(batch, names, how.on_batch)
            else:
                chosen = thinker(places) if thinker else own
                yield names, generate(backbone, chosen, batch, how.decoding, names, how.keep)
                if how.on_batch:
                    how.on_batch(len(names))

    def _settle(self) -> None:
        """Out of training, where it is in it: to tell so to every module of an adapted model takes milliseconds a call."""
        if self.model.backbone.model.training:
            self.model.backbone.model.eval()

    def _kept(self, return_latents: bool) -> Keep:
        """What is kept of each latent to make it readable; a written thought is read as it is."""
        thinker = self.model.method.thinker(self.model.backbone)
        return "all" if return_latents and thinker.thinks and not isinstance(thinker, TextThinker) else "none"

    def _check_room(self, place: int, prompt: Prompt, decoding: Decoding) -> None:
        """Refuse a longest question that does not fit into the model; say so where its thought and answer may not."""
        window = getattr(self.model.backbone.plain_model.config, "max_position_embeddings", None)
        if window is None:
            return
        length = len(prompt.ids)
        if length >= window:
            raise TooLong(place, length, window)
        most = length + room(self.model.method.thinker(self.model.backbone)) + decoding.max_answer_tokens
        if most > window:
            log.warning(
                "question %d takes %s positions, and up to %s with thought and answer; the model was made for %s.",
                place + 1,
                f"{length:,}",
                f"{most:,}",
                f"{window:,}",
            )

    def _fast_engine(self, rows: int, how: _How) -> FastEngine | None:
        """An engine for so many rows, made once and kept until another is needed; None where the plain loop serves."""
        backbone = self.model.backbone
        if self.engine == "reference" or (self.engine == "auto" and backbone.device.type not in ("cpu", "cuda")):
            return None
        most = max(how.batch_size, how.samples)
        # a slot holds memory for a whole question: nearly as many as there are rows, rounded so that few sizes are made
        slots = min(most, 1 << max(rows - 1, 0).bit_length())
        wanted, (made_for, engine) = (how.keep, how.decoding.max_answer_tokens), self._fast
        if made_for != wanted or (engine is not None and not slots <= engine.slots <= most):
            engine, self._fast = None, (None, None)  # its copy of the weights goes before the next one comes
            thinker, options = self.model.method.thinker(backbone), EngineOptions(keep=how.keep)
            self._fast = (wanted, FastEngine.of(backbone, thinker, how.decoding, slots, options))
        engine = self._fast[1]
        if engine is None and self.engine == "fast":
            raise UserError(
                f"engine 'fast': it does not know the layers of {type(backbone.plain_model).__name__}. Choose 'auto' or 'reference'."
            )
        if engine is not None:
            engine.decoding = how.decoding
        return engine

    def answers_of(self, rows: Sequence[Generation]) -> list[Answer]:
        """Ids and tensors → text and readable latents."""
        soft = [row for row in rows if row.latent_logits and not row.thought_ids]
        latents = {id(row): found for row, found in zip(soft, self._latents(soft), strict=True)}
        return [self._answer(row, latents.get(id(row), ())) for row in rows]

    def _latents(self, rows: Sequence[Generation]) -> Iterator[tuple[Latent, ...]]:
        """The readable latents of each row: many rows' are read from the device at once, since every reading waits for it."""
        import torch

        backbone = self.model.backbone
        for start in range(0, len(rows), _READ_AT_ONCE):
            some = rows[start : start + _READ_AT_ONCE]
            logits = torch.stack([one for row in some for one in row.latent_logits])
            found = iter(readable(logits, backbone.tokenizer, backbone.end_think_id, _SHOWN))
            yield from (tuple(islice(found, len(row.latent_logits))) for row in some)

    def _answer(self, row: Generation, latents: tuple[Latent, ...]) -> Answer:
        tokenizer = self.model.backbone.tokenizer
        ids = row.answer_ids[:-1] if row.ended else row.answer_ids
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


class TooLong(UserError):
    """A question that does not fit into the model: `place` is its number among those asked, from 0."""

    def __init__(self, place: int, length: int, window: int):
        self.place = place
        super().__init__(
            f"question {place + 1} takes {length:,} positions with its prompt, but the model reads {window:,}, thought and "
            "answer included. Shorten it, or leave it out."
        )


@dataclass(frozen=True)
class _How:
    """How questions are asked; see `LatentReasoner.sample`."""

    decoding: Decoding
    batch_size: int
    keep: Keep
    on_batch: Callable[[int], None] | None
    samples: int = 1


def check_samples(samples: int, decoding: Decoding) -> None:
    """Refuse to draw nothing, or the same thing again and again."""
    if samples < 1:
        raise UserError(f"samples: must be at least 1, got {samples}.")
    if samples > 1 and not decoding.noisy and decoding.temperature == 0:
        raise UserError(
            f"samples: {samples}, but nothing is drawn, so they would all be the same. Set noise above 0, or a temperature."
        )


def _in_order(
    batches: Iterable[tuple[list[Any], list[Generation]]], convert: Callable[[list[Generation]], Sequence[T]]
) -> list[T]:
    """Batches in any order → one converted row a name, in the names' order."""
    found: dict[Any, T] = {}
    for names, rows in batches:
        found.update(zip(names, convert(rows), strict=True))
    return [found[name] for name in sorted(found)]
