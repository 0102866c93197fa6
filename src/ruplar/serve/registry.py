"""The served models by name, each with its engine, slots and queue.

Limits are checked here, cheapest first, before a prompt is tokenized or queued.
"""

from __future__ import annotations

import math
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
from ruplar.serve.errors import RequestError
from ruplar.serve.metrics import Metrics
from ruplar.serve.schemas import Limits, MessagesMode
from ruplar.serve.streaming import RunningRequest, engine_dead
from ruplar.types import Prompt

_MIN_PROMPT = 16
_WARM_UP = "How many are 2 and 3?"
STOP_SECONDS = 10.0
"""Seconds the engines get to finish at shutdown, after uvicorn has waited for the requests."""


@dataclass
class Worker:
    """One served model."""

    name: str  # name in the API
    model: Model
    scheduler: Scheduler  # its slots and queue, in its own thread
    limits: Limits
    max_prompt: int  # maximum tokens of a prompt

    @classmethod
    def load(cls, name: str, reference: str, limits: Limits, device: str, dtype: str = "auto") -> Worker:
        model = load_model(reference, device, dtype)
        thinker = model.method.thinker(model.backbone)
        generated = room(thinker) + 1 + limits.max_tokens
        positions = getattr(model.backbone.plain_model.config, "max_position_embeddings", None) or math.inf
        most = int(min(limits.max_prompt, positions - generated))
        if most < _MIN_PROMPT:
            raise UserError(
                f"{reference} has {positions} positions; thought and answer may take {generated} of them, which leaves too few "
                f"for a question. Lower --max-tokens (now {limits.max_tokens})."
            )
        # the logits of a written thought would take gigabytes and are not needed
        keep: Keep = "none" if isinstance(thinker, TextThinker) or not thinker.thinks else "all"
        engine = FastEngine.of(
            model.backbone, thinker, Decoding(max_answer_tokens=limits.max_tokens), limits.slots,
            EngineOptions(columns=most + generated, keep=keep, release=True),
        )  # fmt: skip
        if engine is None:
            raise UserError(f"{reference} is not supported by the fast engine and cannot be served.")
        return cls(name, model, Scheduler(engine, limits.max_queue), limits, most)

    @property
    def text_thinker(self) -> bool:
        return isinstance(self.scheduler.engine.thinker, TextThinker)

    @property
    def halt_threshold(self) -> float | None:
        """Halting probability above which a thought ends; None where the model halts by another rule."""
        thinker = self.scheduler.engine.thinker
        return thinker.halt_threshold if isinstance(thinker, SoftThinker) and thinker.halt == "threshold" else None

    @property
    def accepts_noise(self) -> bool:
        return bool(getattr(self.scheduler.engine.thinker, "takes_noise", False))

    @property
    def healthy(self) -> bool:
        """Whether its thread is alive and no decode step has been stuck for longer than the request timeout."""
        return self.scheduler.alive and self.scheduler.stuck_for() < self.limits.timeout

    def prompt(self, question: str, param: str) -> Prompt:
        if len(question) > self.limits.characters:
            raise RequestError(
                400, f"The question has {len(question):,} characters; the maximum is {self.limits.characters:,}.", param,
                "context_length_exceeded",
            )  # fmt: skip
        try:
            prompt = self.model.prompt(question)
        except UserError as error:
            raise RequestError(400, f"{param}: {error}", param, "invalid_value") from None
        if len(prompt.ids) > self.max_prompt:
            raise RequestError(
                400, f"The question takes {len(prompt.ids)} tokens; the maximum is {self.max_prompt}. Shorten it.", param,
                "context_length_exceeded",
            )  # fmt: skip
        return prompt

    def submit(
        self, running: RunningRequest, prompts: Sequence[Prompt], n: int, decoding: Decoding, listen: bool
    ) -> None:
        """Queue n samples of each prompt: all of them, or none."""
        # random streams depend only on the sample's index, so answers do not depend on other requests
        keys = [(0, sample) for sample in range(n)]
        try:
            for prompt in prompts:
                first = len(running.tickets)
                listeners = [running.listener(first + sample) for sample in range(n)] if listen else None
                for ticket in self.scheduler.submit_samples(prompt, keys, decoding, listeners):
                    running.add(ticket)
        except Exception as error:
            running.cancel()  # the samples already queued
            raise self._as_request_error(error) from None

    def _as_request_error(self, error: Exception) -> Exception:
        if isinstance(error, QueueFull):
            return self.full()
        if isinstance(error, EngineDead):
            return engine_dead()
        if isinstance(error, UserError):  # shutting down; oversized prompts were rejected earlier
            return RequestError(503, str(error), None, "shutting_down")
        return error

    def check_queue(self, count: int) -> None:
        if not self.scheduler.alive:
            raise engine_dead()
        if len(self.scheduler.queue) + count > self.limits.max_queue:
            raise self.full()

    def full(self) -> RequestError:
        """Return the error for a full queue, with an estimate of when to retry."""
        waiting, slots = len(self.scheduler.queue), self.scheduler.engine.slots
        seconds = max(1, min(60, math.ceil(waiting / slots * self.scheduler.seconds_each)))
        return RequestError(
            429, f"The queue is full ({waiting} of {self.limits.max_queue} questions). Try again in {seconds} s.", None,
            "queue_full", {"retry-after": str(seconds)},
        )  # fmt: skip


@dataclass
class ModelRegistry:
    """The models of a server."""

    main: Worker  # the model it was started with
    compare: Worker | None  # the text-CoT model for comparison, if any
    metrics: Metrics = field(default_factory=Metrics)  # the server's metrics
    messages: MessagesMode = "single"  # what becomes of a chat with several messages
    needs_key: bool = False  # whether clients must send a key

    def __post_init__(self):
        for worker in self.workers.values():
            self.metrics.watch(worker.name, worker.scheduler)

    @property
    def limits(self) -> Limits:
        return self.main.limits

    @property
    def workers(self) -> dict[str, Worker]:
        return {w.name: w for w in (self.main, self.compare) if w is not None}

    def worker(self, name: str) -> Worker:
        found = self.workers.get(name)
        if found is None:
            shown = name[:100].encode("utf-8", "replace").decode()
            raise RequestError(404, f"model: {unknown('model', shown, self.workers)}", "model", "model_not_found")
        return found

    def start(self) -> None:
        """Start the engines; each answers one question first, so that the first request's time is like any other's."""
        for worker in self.workers.values():
            worker.scheduler.start()
        for worker in self.workers.values():
            worker.scheduler.submit_samples(worker.model.prompt(_WARM_UP), [0])[0].result()

    def stop(self) -> None:
        for worker in self.workers.values():
            worker.scheduler.stop(STOP_SECONDS)


def describe(worker: Worker) -> dict[str, Any]:
    return {"id": worker.name, "object": "model", "created": 0, "owned_by": "ruplar"}
