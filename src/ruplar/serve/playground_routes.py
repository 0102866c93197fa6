"""The playground's routes: what is loaded, and a question's thought and answer as a stream of events.

Events of POST /api/think: start, latent (soft token) or thought (text), halt, token, done or error.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from functools import cache
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from ruplar import __version__
from ruplar.domains.base import Domain
from ruplar.serve.errors import RequestError
from ruplar.serve.outputs import OutputDelta, SampleOutput, latent_as_dict
from ruplar.serve.registry import ModelRegistry, Worker
from ruplar.serve.requests import DEFAULT_TOKENS, make_decoding
from ruplar.serve.schemas import ERRORS, ThinkBody
from ruplar.serve.streaming import ClientDisconnected, EventStream, RunningRequest, SampleUpdate, sse

routes = APIRouter(prefix="/api")
EXAMPLES = 12


@routes.get("/info", responses={401: ERRORS[401]}, summary="What is loaded")
async def info(request: Request) -> dict[str, Any]:
    """Return what the page needs to set up its controls."""
    registry: ModelRegistry = request.app.state.registry
    main, compare, limits = registry.main, registry.compare, registry.limits
    return {
        "version": __version__,
        "model": main.name,
        "method": main.model.metadata.method.name,
        "latent": main.scheduler.engine.thinker.thinks and not main.text_thinker,
        "compare": {"model": compare.name, "method": compare.model.metadata.method.name} if compare else None,
        "needs_key": registry.needs_key,
        "noise": {"adjustable": main.accepts_noise},
        "limits": {
            "question_chars": limits.characters,
            "max_tokens": min(DEFAULT_TOKENS, limits.max_tokens),
            "timeout_s": limits.timeout,
        },
        "examples": examples(main.model.metadata.domain.name),
    }


@cache
def examples(domain: str) -> list[dict[str, Any]]:
    """Return example questions: held-out problems of the generator, short and long; none for other domains."""
    if domain != "arithmetic":
        return []
    from ruplar.problems.word_problems import TRAIN_FAMILIES, generate

    found = []
    for place, family in enumerate(sorted(TRAIN_FAMILIES)[:EXAMPLES]):
        for example in generate(1, 100 + place, families=[family], steps=(1, 5), split="test"):
            found.append({"question": example.question, "answer": example.answer, "steps": list(example.steps)})
    return found


@routes.post("/think", responses={200: {"content": {"text/event-stream": {}}}, **ERRORS}, summary="Stream a thought")
async def think(body: ThinkBody, request: Request) -> Response:
    """Stream the thought and the answer of a question as events."""
    registry: ModelRegistry = request.app.state.registry
    worker = _worker(registry, body)
    tokens = min(DEFAULT_TOKENS, registry.limits.max_tokens)
    decoding = make_decoding(worker, body.temperature, 1.0, body.seed, tokens, (body.halt_threshold, body.noise))
    worker.check_queue(1)
    prompt = worker.prompt(body.question, "question")
    running = RunningRequest(registry.limits.timeout, request.receive)
    worker.submit(running, [prompt], 1, decoding, listen=True)
    return EventStream(_events(registry, worker, body, running), registry.limits.timeout)


def _worker(registry: ModelRegistry, body: ThinkBody) -> Worker:
    if body.method == "ruplar":
        return registry.main
    if registry.compare is None:
        raise RequestError(
            404, "No text-CoT model is loaded. Start the server with --compare MODEL.", "method",
            "model_not_found",
        )  # fmt: skip
    return registry.compare


async def _events(
    registry: ModelRegistry, worker: Worker, body: ThinkBody, running: RunningRequest
) -> AsyncIterator[bytes]:
    start, sample = time.perf_counter(), SampleOutput(worker.model, include_reasoning=True)
    try:
        async with running:
            yield sse({"method": body.method, "model": worker.name}, "start")
            async for update in running.updates():
                delta = sample.update(update.row, update.final)
                for name, data in _increment_events(delta, sample, update):
                    yield sse(data, name)
        registry.metrics.answers(worker.name, [sample.row])
        took = 1000 * (time.perf_counter() - (running.tickets[0].started or start))
        yield sse(_summary(sample, worker.model.domain, took), "done")
    except ClientDisconnected:
        registry.metrics.given_up.labels("client_left").inc()
    except RequestError as error:
        registry.metrics.given_up.labels(error.code or "refused").inc()
        yield sse({"message": error.message, "type": error.kind}, "error")


def _increment_events(
    delta: OutputDelta, sample: SampleOutput, update: SampleUpdate
) -> list[tuple[str, dict[str, Any]]]:
    ms, found = round(update.ms, 2), []
    first = len(sample.latents) - len(delta.latents)
    found += [("latent", latent_as_dict(z, first + i) | {"ms": ms}) for i, z in enumerate(delta.latents)]
    if delta.thought:
        found.append(("thought", {"text": delta.thought, "ms": ms}))
    if delta.halted:
        found.append(("halt", {"halt": None, "ms": ms}))
    if delta.text:
        found.append(("token", {"text": delta.text, "ms": ms}))
    return found


def _summary(sample: SampleOutput, domain: Domain, ms: float) -> dict[str, Any]:
    text, row = sample.answer.text, sample.row
    return {
        "answer": domain.extract(text),
        "text": text,
        "forwards": row.forwards,
        "latents": row.latent_count,
        "answer_tokens": len(row.answer_ids),
        "ms": round(ms, 2),
        "halted": row.halted,
        "ended": row.ended,
        "steps": domain.split(sample.thought.text),
    }
