"""Models by name → questions taken in: each has its engine, its slots and its queue.

What a request may ask for is checked here, cheapest first, before a prompt is read or a place in the queue is taken.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ruplar.engine.fast import FastEngine
from ruplar.engine.options import EngineOptions
from ruplar.engine.reference import Keep
from ruplar.engine.sampling import Decoding
from ruplar.engine.scheduler import EngineDead, QueueFull, Scheduler
from ruplar.engine.thinker import SoftThinker, TextThinker, room
from ruplar.errors import UserError, unknown
from ruplar.model.store import Model, load_model
from ruplar.serve.call import Call
from ruplar.serve.errors import Refusal
from ruplar.serve.limits import Limits
from ruplar.serve.metrics import Metrics
from ruplar.types import Prompt

_LEAST_PROMPT = 16
STOP_SECONDS = 10.0
"""What is still in flight when the server ends may take so long; requests have been waited for before."""


@dataclass
class Worker:
    """One model at work.

    Attributes:
        name: What clients call it.
        model: The model.
        scheduler: Its slots and queue, in a thread of its own.
        limits: See `Limits`.
        room: Most tokens of a prompt.
    """

    name: str
    model: Model
    scheduler: Scheduler
    limits: Limits
    room: int

    @classmethod
    def open(cls, name: str, reference: str, limits: Limits, device: str, dtype: str = "auto") -> Worker:
        """Load a model and make its slots."""
        model = load_model(reference, device, dtype)
        thinker = model.method.thinker(model.backbone)
        frame = room(thinker) + 1 + limits.max_tokens
        positions = getattr(model.backbone.plain_model.config, "max_position_embeddings", None) or math.inf
        most = int(min(limits.max_prompt, positions - frame))
        if most < _LEAST_PROMPT:
            raise UserError(
                f"{reference} has {positions} positions; thought and answer may take {frame} of them, which leaves too few "
                f"for a question. Lower --max-tokens, now {limits.max_tokens}."
            )
        # the logits of a written thought would be gigabytes, and its text says all
        keep: Keep = "none" if isinstance(thinker, TextThinker) or not thinker.thinks else "all"
        engine = FastEngine.of(
            model.backbone, thinker, Decoding(max_answer_tokens=limits.max_tokens), limits.slots,
            EngineOptions(columns=most + frame, keep=keep, release=True),
        )  # fmt: skip
        if engine is None:
            raise UserError(f"{reference} runs only in the plain loop, one batch at a time, and cannot be served.")
        return cls(name, model, Scheduler(engine, limits.max_queue), limits, most)

    @property
    def text_thinker(self) -> bool:
        """Whether it writes its thought as text."""
        return isinstance(self.scheduler.engine.thinker, TextThinker)

    @property
    def threshold(self) -> float | None:
        """P(halt) above which a thought ends; None where the model halts in another way."""
        thinker = self.scheduler.engine.thinker
        return thinker.halt_threshold if isinstance(thinker, SoftThinker) and thinker.halt == "threshold" else None

    @property
    def noisy(self) -> bool:
        """Whether its thoughts can be drawn."""
        return bool(getattr(self.scheduler.engine.thinker, "takes_noise", False))

    @property
    def healthy(self) -> bool:
        """Its thread lives, and no round has been hanging for longer than a request may take."""
        return self.scheduler.alive and self.scheduler.stuck_for() < self.limits.timeout

    def prompt(self, question: str, param: str) -> Prompt:
        """A question as the model reads it.

        Raises:
            Refusal: 400: it is empty or too long.
        """
        if len(question) > self.limits.characters:
            raise Refusal(
                400, f"The question has {len(question):,} characters; at most {self.limits.characters:,} are read.", param,
                "context_length_exceeded",
            )  # fmt: skip
        try:
            prompt = self.model.prompt(question)
        except UserError as error:
            raise Refusal(400, f"{param}: {error}", param, "invalid_value") from None
        if len(prompt.ids) > self.room:
            raise Refusal(
                400, f"The question takes {len(prompt.ids)} tokens; at most {self.room} are taken here. Shorten it.", param,
                "context_length_exceeded",
            )  # fmt: skip
        return prompt

    def queue_up(self, call: Call, prompts: Sequence[Prompt], n: int, decoding: Decoding, listen: bool) -> None:
        """Put n samples of each prompt into the queue: all of them, or none.

        Raises:
            Refusal: 429: the queue is full; 503: the engine is dead or the server is going down.
        """
        # a sample's random stream is named by its place, as if the question were asked alone
        keys = [(0, sample) for sample in range(n)]
        try:
            for prompt in prompts:
                first = len(call.tickets)
                heard = [call.listener(first + sample) for sample in range(n)] if listen else None
                for ticket in self.scheduler.submit_samples(prompt, keys, decoding, heard):
                    call.add(ticket)
        except Exception as error:
            call.cancel()  # those that had found a place
            raise self._refused(error) from None

    def _refused(self, error: Exception) -> Exception:
        if isinstance(error, QueueFull):
            return self.full()
        if isinstance(error, EngineDead):
            return self.dead()
        if isinstance(error, UserError):  # stopping; what does not fit was refused before
            return Refusal(503, str(error), None, "shutting_down")
        return error

    def check_queue(self, count: int) -> None:
        """Refuse before any work is done for a request that would not find so many places."""
        if not self.scheduler.alive:
            raise self.dead()
        if len(self.scheduler.queue) + count > self.limits.max_queue:
            raise self.full()

    def full(self) -> Refusal:
        """429, with a guess when there will be room again."""
        waiting, slots = len(self.scheduler.queue), self.scheduler.engine.slots
        seconds = max(1, min(60, math.ceil(waiting / slots * self.scheduler.seconds_each)))
        return Refusal(
            429, f"{waiting} questions are waiting; at most {self.limits.max_queue} may. Try again in {seconds} s.", None,
            "queue_full", {"retry-after": str(seconds)},
        )  # fmt: skip

    def dead(self) -> Refusal:
        """503."""
        return Refusal(503, "The engine has stopped working; the server must be restarted.", None, "engine_dead")


@dataclass
class ModelRegistry:
    """All models of a server.

    Attributes:
        main: The model it was started with.
        compare: A text-CoT model beside it, if any.
        metrics: The server's figures.
        joins: Put several messages of a chat into one question, instead of refusing them.
        needs_key: A key is asked for.
    """

    main: Worker
    compare: Worker | None
    metrics: Metrics = field(default_factory=Metrics)
    joins: bool = False
    needs_key: bool = False

    def __post_init__(self):
        for worker in self.workers.values():
            self.metrics.watch(worker.name, worker.scheduler)

    @property
    def limits(self) -> Limits:
        """Of every model."""
        return self.main.limits

    @property
    def workers(self) -> dict[str, Worker]:
        """By name."""
        return {w.name: w for w in (self.main, self.compare) if w is not None}

    def worker(self, name: str) -> Worker:
        """The model of that name.

        Raises:
            Refusal: 404.
        """
        found = self.workers.get(name)
        if found is None:
            shown = name[:100].encode("utf-8", "replace").decode()
            raise Refusal(404, f"model: {unknown('model', shown, self.workers)}", "model", "model_not_found")
        return found

    def start(self) -> None:
        """Begin to work."""
        for worker in self.workers.values():
            worker.scheduler.start()

    def stop(self) -> None:
        """Finish what is in flight and end."""
        for worker in self.workers.values():
            worker.scheduler.stop(STOP_SECONDS)


def seed_of(seed: int | None) -> int:
    """A request's seed as the engine takes it: drawn when there is none, never negative."""
    return secrets.randbits(32) if seed is None else seed % 2**64


def describe(worker: Worker) -> dict[str, Any]:
    """A model as /v1/models lists it."""
    return {"id": worker.name, "object": "model", "created": 0, "owned_by": "ruplar"}
