"""The served models by name, each with its engine, slots and queue.

Limits are checked here, cheapest first, before a prompt is tokenized or queued.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ruplar.engine.fast import FastEngine, attention_window
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
WARM_UP_SECONDS = 600.0
"""Seconds for the first answer, in which a GPU compiles kernels and captures graphs."""
STOP_SECONDS = 10.0
"""Seconds the engines get to finish at shutdown, after uvicorn has waited for the requests."""


@dataclass
class ServedModel:
    """One model of the server."""

    name: str  # name in the API
    model: Model
    scheduler: Scheduler  # its slots and queue, in its own thread
    limits: Limits
    max_prompt: int  # maximum tokens of a prompt

    @classmethod
    def load(cls, name: str, reference: str, limits: Limits, device: str, dtype: str = "auto") -> ServedModel:
        model = load_model(reference, device, dtype)
        thinker = model.method.thinker(model.backbone)
        generated = room(thinker) + 1 + limits.max_tokens
        positions = min(model.max_positions or sys.maxsize, attention_window(model.backbone))
        most = min(limits.max_prompt, positions - generated)
        if most < _MIN_PROMPT:
            raise UserError(
                f"{reference} has {positions} positions; thought and answer may take {generated} of them, which leaves too few "
                f"for a question. Lower --max-tokens (now {limits.max_tokens})."
            )
        # the logits of a written thought would take gigabytes and are not needed
        keep: Keep = "none" if isinstance(thinker, TextThinker) or not thinker.thinks else "all"
        options = EngineOptions(columns=most + generated, keep=keep, release=True)
        decoding = Decoding(max_answer_tokens=limits.max_tokens)
        engine = FastEngine.of(model.backbone, thinker, decoding, limits.slots, options)
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
        most, too_long = self.limits.characters, "context_length_exceeded"
        if len(question) > most:
            text = f"The question has {len(question):,} characters; the maximum is {most:,}."
            raise RequestError(400, too_long, text, param)
        try:
            prompt = self.model.prompt(question)
        except UserError as error:
            raise RequestError(400, "invalid_value", f"{param}: {error}", param) from None
        if len(prompt.ids) > self.max_prompt:
            text = f"The question takes {len(prompt.ids)} tokens; the maximum is {self.max_prompt}. Shorten it."
            raise RequestError(400, too_long, text, param)
        return prompt

    def submit(
        self,
        running: RunningRequest,
        prompts: Sequence[Prompt],
        n: int,
        decoding: Decoding,
        listen: bool,
        seeded: bool,
    ) -> None:
        """Queue n samples of each prompt: all of them, or none."""
        try:
            for place, prompt in enumerate(prompts):
                # with a seed, random streams depend only on the sample's index: not on the other prompts and requests
                keys = [(0 if seeded else place, sample) for sample in range(n)]
                listeners = [running.listener(place * n + sample) for sample in range(n)] if listen else None
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
            return RequestError(503, "shutting_down", str(error))
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
        text = f"The queue is full ({waiting} of {self.limits.max_queue} questions). Try again in {seconds} s."
        return RequestError(429, "queue_full", text, headers={"retry-after": str(seconds)})


@dataclass
class ModelRegistry:
    """The models of a server."""

    main: ServedModel  # the model it was started with
    compare: ServedModel | None  # the text-CoT model for comparison, if any
    metrics: Metrics = field(default_factory=Metrics)  # the server's metrics
    messages: MessagesMode = "single"  # what becomes of a chat with several messages
    needs_key: bool = False  # whether clients must send a key

    def __post_init__(self):
        self.models = {one.name: one for one in (self.main, self.compare) if one is not None}
        for one in self.models.values():
            self.metrics.watch(one.name, one.scheduler)

    @property
    def limits(self) -> Limits:
        return self.main.limits

    def find(self, name: str) -> ServedModel:
        if name not in self.models:
            shown = name[:100].encode("utf-8", "replace").decode()
            raise RequestError(404, "model_not_found", f"model: {unknown('model', shown, self.models)}", "model")
        return self.models[name]

    def start(self) -> None:
        """Start the engines that do not run; each answers a question, so that the first request's time is like any other's."""
        fresh = [one for one in self.models.values() if not one.scheduler.alive]
        for one in fresh:
            one.scheduler.start()
        for one in fresh:
            try:
                one.scheduler.submit_samples(one.model.prompt(_WARM_UP), [0])[0].result(WARM_UP_SECONDS)
            except TimeoutError:
                raise UserError(
                    f"{one.name}: no answer to its first question within {WARM_UP_SECONDS:g} s. Its device may be busy, or too "
                    "slow for this model: see what runs on it, or choose another --device."
                ) from None

    def stop(self) -> None:
        for one in self.models.values():
            one.scheduler.stop(STOP_SECONDS)


def describe(model: ServedModel) -> dict[str, Any]:
    return {"id": model.name, "object": "model", "created": 0, "owned_by": "ruplar"}
