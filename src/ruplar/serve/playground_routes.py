"""The playground's routes: what is loaded, and a question's thought and answer as a stream of events.

Events of POST /api/think, of the first sample: latent (soft token) or thought (text), token; of all samples: done or error.
"""

import time
from collections.abc import AsyncGenerator, Sequence
from functools import cache
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from ruplar import __version__
from ruplar.domains.base import Domain
from ruplar.engine.sampling import SAMPLE_NOISE
from ruplar.evaluate.score import majority
from ruplar.serve.errors import RequestError, unsupported
from ruplar.serve.outputs import SampleOutput, latent_as_dict
from ruplar.serve.registry import ModelRegistry, ServedModel
from ruplar.serve.requests import parse_completion
from ruplar.serve.schemas import ERRORS, CompletionBody
from ruplar.serve.streaming import EventStream, RunningRequest, SampleUpdate, sse
from ruplar.types import Answer

routes = APIRouter(prefix="/api")
EXAMPLES = 12


@routes.get("/info", responses={401: ERRORS[401]}, summary="List the loaded models")
async def info(request: Request) -> dict[str, Any]:
    """Return what the page needs to set up its controls."""
    registry: ModelRegistry = request.app.state.registry
    main, compare, limits = registry.main, registry.compare, registry.limits
    return {
        "version": __version__,
        "model": main.name,
        "method": main.model.metadata.method.name,
        "latent": main.scheduler.engine.thinker.thinks and not main.text_thinker,
        "compare": compare.name if compare else None,
        "needs_key": registry.needs_key,
        "noise": {"of_samples": SAMPLE_NOISE, "adjustable": main.accepts_noise},
        "limits": {"samples": limits.answers, "question_chars": limits.characters},
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
async def think(body: CompletionBody, request: Request) -> Response:
    """Stream the thought and the answer of a question as events."""
    registry: ModelRegistry = request.app.state.registry
    wanted = parse_completion(registry, body)
    if len(wanted.prompts) > 1:
        raise unsupported("prompt", "this route answers one question at a time.")
    running = wanted.start(request.receive, listen=True)
    return EventStream(_events(registry, wanted.model, running), registry.limits.timeout)


async def _events(registry: ModelRegistry, model: ServedModel, running: RunningRequest) -> AsyncGenerator[bytes, None]:
    start = time.perf_counter()
    try:
        async with running:
            async for update in running.updates():
                if update.index == 0:
                    for name, data in _increment_events(update):
                        yield sse(data, name)
        registry.metrics.answers(model.name, running.samples)
        took = 1000 * (time.perf_counter() - (running.tickets[0].started or start))
        yield sse(_summary(running.samples, model.model.domain, took), "done")
    except RequestError as error:
        yield sse({"message": error.message, "type": error.kind}, "error")


def _increment_events(update: SampleUpdate) -> list[tuple[str, dict[str, Any]]]:
    delta, ms = update.delta, round(update.ms, 2)
    first = len(update.sample.latents) - len(delta.latents)
    found = [("latent", latent_as_dict(z, first + i) | {"ms": ms}) for i, z in enumerate(delta.latents)]
    if delta.thought:
        found.append(("thought", {"text": delta.thought, "ms": ms}))
    if delta.text:
        found.append(("token", {"text": delta.text, "ms": ms}))
    return found


def _summary(samples: Sequence[SampleOutput], domain: Domain, ms: float) -> dict[str, Any]:
    vote = majority([Answer(s.answer.text, forwards=s.row.forwards) for s in samples], domain)
    first = samples[0].row
    found: dict[str, Any] = {
        "answer": vote.counts[0][0] if vote.counts else None,
        "text": vote.answer.text,
        "forwards": vote.answer.forwards,
        "latents": first.latent_count,
        "ms": round(ms, 2),
        "halted": first.halted,
        "ended": first.ended,
        "steps": domain.split(samples[0].thought.text),
    }
    if len(samples) > 1:
        unread = [{"answer": None, "count": vote.unreadable}] if vote.unreadable else []
        found["votes"] = [{"answer": answer, "count": count} for answer, count in vote.counts] + unread
    return found
