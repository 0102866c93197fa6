"""The playground's routes: what is loaded, and a question's thought and answer as a stream of events.

Events of POST /api/think: start, latent (soft token) or thought (text), halt, token, sample (of several), done or error.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from functools import cache
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from ruplar import __version__
from ruplar.domains.base import Domain
from ruplar.engine.sampling import SAMPLE_NOISE
from ruplar.evaluate.score import majority
from ruplar.serve.errors import RequestError
from ruplar.serve.outputs import OutputDelta, SampleOutput, latent_as_dict
from ruplar.serve.registry import ModelRegistry, Worker
from ruplar.serve.requests import DEFAULT_TOKENS, make_decoding
from ruplar.serve.schemas import ERRORS, ThinkBody
from ruplar.serve.streaming import ClientDisconnected, EventStream, RunningRequest, SampleUpdate, sse
from ruplar.types import Answer

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
        "noise": {"of_samples": SAMPLE_NOISE, "adjustable": main.accepts_noise},
        "limits": {
            "samples": limits.max_n,
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
    if body.samples > registry.limits.max_n:
        raise RequestError(
            400, f"samples: at most {registry.limits.max_n}, got {body.samples}.", "samples", "over_limit"
        )
    tokens = min(DEFAULT_TOKENS, registry.limits.max_tokens)
    decoding = make_decoding(worker, body.temperature, 1.0, body.seed, tokens, (body.halt_threshold, body.noise))
    worker.check_queue(body.samples)
    prompt = worker.prompt(body.question, "question")
    running = RunningRequest(registry.limits.timeout, request.receive)
    worker.submit(running, [prompt], body.samples, decoding, listen=True)
    samples = [SampleOutput(worker.model, include_reasoning=index == 0) for index in range(body.samples)]
    return EventStream(_events(registry, worker, body, running, samples), registry.limits.timeout)


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
    registry: ModelRegistry, worker: Worker, body: ThinkBody, running: RunningRequest, samples: list[SampleOutput]
) -> AsyncIterator[bytes]:  # fmt: skip
    start, domain = time.perf_counter(), worker.model.domain
    try:
        async with running:
            yield sse({"method": body.method, "model": worker.name, "samples": len(samples)}, "start")
            async for update in running.updates():
                sample = samples[update.index]
                delta = sample.update(update.row, update.final)
                if update.index == 0:
                    for name, data in _increment_events(delta, sample, update):
                        yield sse(data, name)
                if update.final and len(samples) > 1:
                    yield sse(_sample_event(update, sample, domain), "sample")
        registry.metrics.answers(worker.name, [s.row for s in samples])
        took = 1000 * (time.perf_counter() - (running.tickets[0].started or start))
        yield sse(_summary(samples, domain, took), "done")
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


def _sample_event(update: SampleUpdate, sample: SampleOutput, domain: Domain) -> dict[str, Any]:
    text = sample.answer.text
    return {
        "index": update.index,
        "answer": domain.extract(text),
        "text": text,
        "latents": sample.row.latent_count,
        "ms": round(update.ms, 2),
    }


def _summary(samples: Sequence[SampleOutput], domain: Domain, ms: float) -> dict[str, Any]:
    vote = majority([Answer(s.answer.text) for s in samples], domain)
    first = samples[0].row
    found: dict[str, Any] = {
        "answer": vote.tally[0][0] if vote.tally else None,
        "text": vote.answer.text,
        "forwards": sum(sample.row.forwards for sample in samples),
        "latents": first.latent_count,
        "answer_tokens": len(first.answer_ids),
        "ms": round(ms, 2),
        "halted": first.halted,
        "ended": first.ended,
        "steps": domain.split(samples[0].thought.text),
    }
    if len(samples) > 1:
        unread = [{"answer": None, "count": vote.unreadable}] if vote.unreadable else []
        found["votes"] = [{"answer": answer, "count": count} for answer, count in vote.tally] + unread
    return found
