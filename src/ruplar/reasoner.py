"""Questions → answers with their thoughts: what most users of the library need.

reasoner = LatentReasoner.from_pretrained("embedded")
[answer] = reasoner.ask(["Tom has 3 bags of 4 apples. How many apples does he have?"], return_latents=True)
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar, get_args

from ruplar.engine.answers import answers_of
from ruplar.engine.fast import FastEngine, Unsupported
from ruplar.engine.options import EngineOptions
from ruplar.engine.reference import Generation, Keep, generate
from ruplar.engine.sampling import SAMPLE_NOISE, Decoding
from ruplar.engine.scheduler import Scheduler
from ruplar.engine.thinker import TextThinker, Thinker, room
from ruplar.errors import UserError, unknown
from ruplar.model.memory import peak_memory_gb
from ruplar.model.store import Model, load_model
from ruplar.types import Answer, Prompt

if TYPE_CHECKING:
    import torch
    from torch import Tensor

log = logging.getLogger(__name__)

T = TypeVar("T")
Engine = Literal["auto", "fast", "reference"]
_REFILLS = 8
"""Batches passed to the fast engine at a time when it returns logits of latents, which are large."""


class _Lock(type(threading.RLock())):  # type: ignore[misc]
    """A lock of its own for every copy, so that a reasoner can be copied and pickled."""

    def __reduce__(self) -> tuple[type[_Lock], tuple[()]]:
        return _Lock, ()


@dataclass
class LatentReasoner:
    """A model that answers questions.

    Attributes:
        model: The model; its weights must not change between calls with the fast engine, which copies them.
        engine: `fast`: continuous batching over slots; `reference`: the simple loop that defines correct output; `auto`: fast
            on a CPU or an NVIDIA GPU if it supports the model's layers and their attention window covers the questions,
            else reference. Both give the same tokens in float32; in bfloat16 near ties may differ (docs/results.md, "Speed").

    Threads may share a reasoner: their calls wait for each other.
    """

    model: Model
    engine: Engine = "auto"
    remote: ClassVar[bool] = (
        False  # whether other processes answer: these can be neither warmed up nor timed from here
    )
    _fast: tuple[Any, FastEngine | None] = field(default=(None, None), init=False, repr=False)
    _lock: _Lock = field(default_factory=_Lock, init=False, repr=False, compare=False)

    def __post_init__(self):
        if self.engine not in get_args(Engine):
            raise UserError(unknown("engine", str(self.engine), get_args(Engine)))

    @classmethod
    def from_pretrained(
        cls,
        reference: str | Path,
        device: str | torch.device = "cpu",
        dtype: str | torch.dtype = "auto",
        engine: Engine = "auto",
        settings: Mapping[str, Any] | None = None,
    ) -> LatentReasoner:
        """Load a model.

        Args:
            reference: A folder of `ruplar train`, `LatentTrainer.save_model` or `ruplar export`; or a packaged model:
                `embedded`, `embedded:cot`, `embedded:no_cot`.
            device: `cpu`, `cuda`, `cuda:1`, `mps`, or `auto` for the best of them; or a `torch.device`.
            dtype: `auto`, `float32` or `bfloat16`, or a `torch.dtype`.
            engine: See `LatentReasoner`.
            settings: Method settings that replace the saved ones, e.g. `{"speed": 2}` for CoLaR.

        Raises:
            UserError: The model does not exist or cannot be loaded, or an argument has no such value.
        """
        return cls(load_model(reference, device, dtype, settings), engine)

    @property
    def gpu(self) -> str | None:
        """Name of the GPU it runs on, if any."""
        import torch

        device = self.model.backbone.device
        return torch.cuda.get_device_name(device) if device.type == "cuda" else None

    @property
    def peak_gb(self) -> float | None:
        """Peak memory of the GPU since `forget_peak`, else of the process."""
        return peak_memory_gb(self.model.backbone.device)

    @property
    def workers(self) -> int:
        """Processes that answer in parallel."""
        return 1

    def warm_up(
        self,
        *,
        return_latents: bool = False,
        decoding: Decoding | None = None,
        batch_size: int = 64,
        samples: int = 1,
        questions: int = 1,
    ) -> None:
        """Build the engine and its copy of the weights now, so that the first question does not wait for them.

        The arguments are those of the later calls of `ask` or `sample`, `questions` their number of questions.
        """
        how = SampleOptions(decoding or Decoding(), batch_size, self.keep(return_latents, decoding), None, samples)
        with self._lock:
            self._fast_engine(questions * samples, how)

    def ask(
        self,
        questions: str | Sequence[str],
        *,
        return_latents: bool = False,
        decoding: Decoding | None = None,
        batch_size: int = 64,
        on_batch: Callable[[int], None] | None = None,
    ) -> list[Answer]:
        """Answer questions.

        Args:
            questions: One or many; they are batched by length.
            return_latents: Also return the most probable tokens of each latent.
            decoding: How the answer is decoded; None: greedy.
            batch_size: Questions per batch.
            on_batch: Called with the number of questions just answered, for progress bars.

        Returns:
            One answer per question, in the order of the questions.

        Raises:
            UserError: A question is empty or too long for the model.
        """
        how: dict[str, Any] = {"decoding": decoding or Decoding(), "batch_size": batch_size, "on_batch": on_batch}
        return [answer for [answer] in self.sample(questions, 1, return_latents=return_latents, **how)]

    def sample(
        self,
        questions: str | Sequence[str],
        samples: int,
        *,
        return_latents: bool = False,
        decoding: Decoding | None = None,
        batch_size: int = 64,
        on_batch: Callable[[int], None] | None = None,
        places: Sequence[int] | None = None,
    ) -> list[list[Answer]]:
        """Sample several thoughts and answers per question, sharing its prefill.

        Sample s of question q depends only on (seed, q, s), so requesting more samples extends the first ones.
        `ruplar.evaluate.score.majority` takes the majority of their answers.

        Args:
            questions: One or many.
            samples: Answers per question.
            return_latents: Also return the most probable tokens of each latent, after noise.
            decoding: Noise of the thoughts and decoding of the answers; None: `SAMPLE_NOISE` and greedy.
            batch_size: Answers per batch.
            on_batch: Called with the number of answers just given.
            places: For part of a set: the number q of each question in the whole set, ascending; None: 0, 1, ….

        Returns:
            A list of answers per question.

        Raises:
            UserError: `samples` is below 1, nothing is random, or the method does not support noise.
        """
        questions = [questions] if isinstance(questions, str) else list(questions)
        decoding = decoding or Decoding(noise=SAMPLE_NOISE)
        check_samples(samples, decoding)
        keep = self.keep(return_latents, decoding)
        with self._lock:
            return self._sample(questions, SampleOptions(decoding, batch_size, keep, on_batch, samples, places))

    def _sample(self, questions: Sequence[str], how: SampleOptions) -> list[list[Answer]]:
        """Answer checked questions; a cluster does this elsewhere."""
        # latents are made readable batch by batch: the logits of a whole benchmark take gigabytes
        flat = _in_order(self._batches(questions, how), self.answers_of)
        return [flat[at : at + how.samples] for at in range(0, len(flat), how.samples)]

    def generate(
        self,
        inputs: str | Sequence[str] | Sequence[Sequence[int]] | Tensor,
        *,
        attention_mask: Tensor | None = None,
        thinker: Callable[[list[int]], Thinker] | None = None,
        decoding: Decoding | None = None,
        batch_size: int = 64,
        keep: Keep = "none",
        samples: int = 1,
        on_batch: Callable[[int], None] | None = None,
    ) -> list[Generation]:
        """Token ids in, token ids out: like `ask`, without decoding to text.

        Args:
            inputs: Prompts as token ids, as `model.prompt(question).ids` gives them: a list of id lists, or a tensor [B, S];
                or one question or many as text.
            attention_mask: [B, S], 0 at padding of a tensor of ids.
            thinker: Position of each row's question in `inputs` → how the rows of a batch think; None: the method's own thinker.
            decoding: How the answer is decoded; None: greedy.
            batch_size: Questions per batch.
            keep: What to return of each latent: `none`, `embeds`, `all`: its logits too, or what `keep` returns for `answers_of`.
            samples: Answers per input.
            on_batch: Called with the number of answers just given.

        Returns:
            One `Generation` per input and sample: `answer_ids`, `latent_count`, ….

        Raises:
            UserError: A prompt is empty or too long for the model, or `inputs` are neither questions nor id lists.
        """
        how = SampleOptions(decoding or Decoding(), batch_size, keep, on_batch, samples)
        with self._lock:
            return _in_order(self._batches(_as_prompts(inputs, attention_mask), how, thinker), lambda rows: rows)

    def _batches(
        self,
        questions: Sequence[str | Prompt],
        how: SampleOptions,
        thinker: Callable[[list[int]], Thinker] | None = None,
    ) -> Iterator[tuple[list[tuple[int, int]], list[Generation]]]:
        """Yield (question, sample) of a batch's rows and their results, shortest prompts first."""
        backbone = self.model.backbone
        if backbone.model.training:  # setting it on every module of an adapted model takes milliseconds
            backbone.model.eval()
        prompts, order = self.by_length(questions, how.decoding)
        fast = self._fast_engine(len(order) * how.samples, how) if order and thinker is None else None
        if fast and self.engine == "auto" and not fast.has_room(fast.need(prompts[order[-1]], how.decoding)):
            fast = None
        own = self.model.method.thinker(backbone)
        # the fast engine refills its slots, so it gets several batches at a time; samples of a question stay together
        size = max(1, how.batch_size * (_REFILLS if fast else 1) // how.samples)
        if fast and how.keep != "all":
            size = max(size, len(order))
        for start in range(0, len(order), size):
            places = order[start : start + size]
            # a row's random stream is named by its question and sample, so batching does not change the samples
            names = [(how.places[i] if how.places else i, sample) for i in places for sample in range(how.samples)]
            batch = [prompts[i] for i in places for _ in range(how.samples)]
            if fast:
                yield names, Scheduler(fast).run_all(batch, names, how.on_batch)
            else:
                chosen = thinker([i for i in places for _ in range(how.samples)]) if thinker else own
                yield names, generate(backbone, chosen, batch, how.decoding, names, how.keep)
                if how.on_batch:
                    how.on_batch(len(names))

    def by_length(self, questions: Sequence[str | Prompt], decoding: Decoding) -> tuple[list[Prompt], list[int]]:
        """Return the prompts of questions and their order, shortest first; refuses a question that is too long."""
        prompts = [one if isinstance(one, Prompt) else self.model.prompt(one) for one in questions]
        order = sorted(range(len(prompts)), key=lambda i: len(prompts[i].ids))
        if order:
            self._check_room(order[-1], prompts[order[-1]], decoding)
        return prompts, order

    @property
    def capture_seconds(self) -> float:
        """Seconds that the engine in use has spent on capturing CUDA graphs."""
        engine = self._fast[1]
        return engine.graphs.seconds if engine is not None and engine.graphs is not None else 0.0

    def keep(self, return_latents: bool, decoding: Decoding | None = None) -> Keep:
        """Return what `generate` must return of each latent for `answers_of`; a written thought needs nothing."""
        thinker = self.model.method.thinker(self.model.backbone)
        if not return_latents or not thinker.thinks or isinstance(thinker, TextThinker):
            return "none"
        return "all" if decoding is not None and decoding.noisy else "readable"  # noise is in the logits only

    def _check_room(self, place: int, prompt: Prompt, decoding: Decoding) -> None:
        """Refuse a question that is too long for the model; warn if its thought and answer may be."""
        limit = self.model.max_positions
        if limit is None:
            return
        length = len(prompt.ids)
        if length >= limit:
            raise TooLong(place, length, limit)
        most = length + room(self.model.method.thinker(self.model.backbone)) + decoding.max_answer_tokens
        if most > limit:
            text = "question %d has %s tokens, and up to %s with thought and answer; the model supports %s."
            log.warning(text, place + 1, *(f"{size:,}" for size in (length, most, limit)))

    def _fast_engine(self, rows: int, how: SampleOptions) -> FastEngine | None:
        """Return a cached fast engine for this many rows; None to use the reference engine."""
        backbone = self.model.backbone
        if self.engine == "reference" or (self.engine == "auto" and backbone.device.type not in ("cpu", "cuda")):
            return None
        most = max(how.batch_size, how.samples)
        # a slot needs memory for a whole question: about as many as rows, rounded up so that few sizes are built
        slots = min(most, 1 << max(rows - 1, 0).bit_length())
        wanted, (made_for, engine) = (self.engine, how.keep, how.decoding.max_answer_tokens), self._fast
        if made_for != wanted or (engine is not None and not slots <= engine.slots <= most):
            engine, self._fast = None, (None, None)  # frees its copy of the weights before the next one is made
            thinker, options = self.model.method.thinker(backbone), EngineOptions(keep=how.keep)
            try:
                engine = FastEngine.of(backbone, thinker, how.decoding, slots, options)
            except Unsupported:
                if self.engine == "fast":
                    raise
            self._fast = (wanted, engine)
        if engine is not None:
            engine.decoding = how.decoding
        return engine

    def answers_of(self, rows: Sequence[Generation]) -> list[Answer]:
        """Ids and tensors → text and readable latents."""
        return answers_of(self.model.backbone, rows)


class TooLong(UserError):
    """A question that is too long for the model: `place` is its index."""

    def __init__(self, place: int, length: int, limit: int):
        self.place = place
        super().__init__(
            f"question {place + 1} has {length:,} tokens with its prompt, but the model supports {limit:,}, including "
            "thought and answer. Shorten it, or remove it."
        )


@dataclass(frozen=True)
class SampleOptions:
    """Options of one call; see `LatentReasoner.sample`."""

    decoding: Decoding
    batch_size: int
    keep: Keep
    on_batch: Callable[[int], None] | None
    samples: int = 1
    places: Sequence[int] | None = None


def check_samples(samples: int, decoding: Decoding) -> None:
    """Refuse a number of samples below 1, or several samples without randomness."""
    if samples < 1:
        raise UserError(f"samples: must be at least 1, got {samples}.")
    if samples > 1 and not decoding.noisy and decoding.temperature == 0:
        raise UserError(f"samples: {samples}, but nothing is random. Set noise or temperature above 0.")


def _as_prompts(inputs: Any, attention_mask: Tensor | None) -> list[str | Prompt]:
    """Return questions unchanged, and prompts of token ids without their padding."""
    inputs = [inputs] if isinstance(inputs, str) else inputs
    rows: list[Any] = inputs.tolist() if hasattr(inputs, "tolist") else list(inputs)
    if kinds := sorted({type(row).__name__ for row in rows if not isinstance(row, Sequence)}):
        raise UserError(
            f"inputs: must be questions, a list of id lists or a tensor [B, S]; got a list of {kinds[0]}. Wrap a single "
            "prompt in a list, and turn tensors of different lengths into lists (`.tolist()`)."
        )
    if attention_mask is not None:
        masks = attention_mask.tolist()
        rows = [[i for i, real in zip(row, mask, strict=True) if real] for row, mask in zip(rows, masks, strict=True)]
    if any(not row for row in rows):
        raise UserError(f"input {next(n for n, row in enumerate(rows) if not row) + 1}: the prompt is empty.")
    return [row if isinstance(row, str) else Prompt(tuple(row), len(row) - 1) for row in rows]


def _in_order(
    batches: Iterable[tuple[list[Any], list[Generation]]], convert: Callable[[list[Generation]], Sequence[T]]
) -> list[T]:
    """Batches in any order → converted rows in the order of their names."""
    found: dict[Any, T] = {}
    for names, rows in batches:
        found.update(zip(names, convert(rows), strict=True))
    return [found[name] for name in sorted(found)]
