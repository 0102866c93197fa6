"""The playground's routes → what is loaded, and one question's thought and answer as they come.

Events of POST /api/think: start, latent (soft tokens) or thought (text), halt, token, sample (of several), then done or error.
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
from ruplar.evaluate.score import majority
from ruplar.serve.call import Call, ClientLeft, News
from ruplar.serve.errors import Refusal
from ruplar.serve.events import Events, event
from ruplar.serve.registry import ModelRegistry, Worker
from ruplar.serve.requests import DEFAULT_TOKENS, decoding_of
from ruplar.serve.sample import Piece, Sample, latent_as_dict
from ruplar.serve.schemas import ERRORS, ThinkBody
from ruplar.types import Answer

routes = APIRouter(prefix="/api")
EXAMPLES = 12


@routes.get("/info", responses={401: ERRORS[401]}, summary="What is loaded")
async def info(request: Request) -> dict[str, Any]:
    """What a page needs to know before it asks."""
    registry: ModelRegistry = request.app.state.registry
    main, compare, limits = registry.main, registry.compare, registry.limits
    return {
        "version": __version__,
        "model": main.name,
        "method": main.model.metadata.method.name,
        "latent": main.scheduler.engine.thinker.thinks and not main.text_thinker,
        "compare": {"model": compare.name, "method": compare.model.metadata.method.name} if compare else None,
        "needs_key": registry.needs_key,
        "halt": {
            "rule": getattr(main.scheduler.engine.thinker, "halt", None),
            "default": main.threshold,
            "adjustable": main.threshold is not None,
        },
        "noise": {"default": 0.0, "adjustable": main.noisy},
        "limits": {
            "samples": limits.max_n,
            "question_chars": limits.characters,
            "max_tokens": min(DEFAULT_TOKENS, limits.max_tokens),
            "timeout_s": limits.timeout,
        },
        "examples": examples(main.model.metadata.domain.name),
    }


@cache
def examples(domain: str) -> list[dict[str, str]]:
    """Problems to pick from: held-out ones of our generator, short and long; none for a domain it does not write."""
    if domain != "arithmetic":
        return []
    from ruplar.problems.word_problems import TRAIN_FAMILIES, generate

    found = []
    for place, family in enumerate(sorted(TRAIN_FAMILIES)[:EXAMPLES]):
        for example in generate(1, 100 + place, families=[family], steps=(1, 5), split="test"):
            found.append({"question": example.question, "answer": example.answer, "family": family})
    return found


@routes.post("/think", responses={200: {"content": {"text/event-stream": {}}}, **ERRORS}, summary="Watch a thought")
async def think(body: ThinkBody, request: Request) -> Response:
    """One question → its thought and answer as events."""
    registry: ModelRegistry = request.app.state.registry
    worker = _worker(registry, body)
    if body.samples > registry.limits.max_n:
        raise Refusal(
            400, f"samples: at most {registry.limits.max_n}, asked for {body.samples}.", "samples", "over_limit"
        )
    tokens = min(DEFAULT_TOKENS, registry.limits.max_tokens)
    decoding = decoding_of(worker, body.temperature, 1.0, body.seed, tokens, (body.halt_threshold, body.noise))
    worker.check_queue(body.samples)
    prompt = worker.prompt(body.question, "question")
    call = Call(registry.limits.timeout, request.receive)
    worker.queue_up(call, [prompt], body.samples, decoding, listen=True)
    samples = [Sample(worker.model, shows=index == 0) for index in range(body.samples)]
    return Events(_events(registry, worker, body, call, samples), registry.limits.timeout)


def _worker(registry: ModelRegistry, body: ThinkBody) -> Worker:
    if body.method == "ruplar":
        return registry.main
    if registry.compare is None:
        raise Refusal(
            404, "No text-CoT model is loaded beside this one. Start the server with --compare MODEL.", "method",
            "model_not_found",
        )  # fmt: skip
    return registry.compare


async def _events(
    registry: ModelRegistry, worker: Worker, body: ThinkBody, call: Call, samples: list[Sample]
) -> AsyncIterator[bytes]:  # fmt: skip
    start, domain = time.perf_counter(), worker.model.domain
    try:
        async with call:
            yield event({"method": body.method, "model": worker.name, "samples": len(samples)}, "start")
            async for news in call.news():
                sample = samples[news.index]
                piece = sample.take(news.row, news.final)
                if news.index == 0:
                    for name, data in _shown(piece, sample, news):
                        yield event(data, name)
                if news.final and len(samples) > 1:
                    yield event(_ended(news, sample, domain), "sample")
        registry.metrics.answers(worker.name, [s.row for s in samples])
        took = 1000 * (time.perf_counter() - (call.tickets[0].started or start))
        yield event(_summary(samples, domain, took), "done")
    except ClientLeft:
        registry.metrics.given_up.labels("client_left").inc()
    except Refusal as refusal:
        registry.metrics.given_up.labels(refusal.code or "refused").inc()
        yield event({"message": refusal.message, "type": refusal.kind}, "error")


def _shown(piece: Piece, sample: Sample, news: News) -> list[tuple[str, dict[str, Any]]]:
    """The first sample's piece as events."""
    ms, found = round(news.ms, 2), []
    first = len(sample.latents) - len(piece.latents)
    found += [("latent", latent_as_dict(z, first + i) | {"ms": ms}) for i, z in enumerate(piece.latents)]
    if piece.thought:
        found.append(("thought", {"text": piece.thought, "ms": ms}))
    if piece.closed:
        found.append(("halt", {"halt": None, "ms": ms}))
    if piece.text:
        found.append(("token", {"text": piece.text, "ms": ms}))
    return found


def _ended(news: News, sample: Sample, domain: Domain) -> dict[str, Any]:
    text = sample.answer.text
    return {
        "index": news.index,
        "answer": domain.extract(text),
        "text": text,
        "latents": sample.row.latent_count,
        "ms": round(news.ms, 2),
    }


def _summary(samples: Sequence[Sample], domain: Domain, ms: float) -> dict[str, Any]:
    vote = majority([Answer(s.answer.text) for s in samples], domain)
    first = samples[0].row
    found: dict[str, Any] = {
        "answer": vote.tally[0][0] if vote.tally else None,
        "text": vote.answer.text,
        "forwards": first.forwards,
        "latents": first.latent_count,
        "answer_tokens": len(first.answer_ids),
        "ms": round(ms, 2),
        "halted": first.halted,
        "ended": first.ended,
    }
    if len(samples) > 1:
        unread = [{"answer": None, "count": vote.unreadable}] if vote.unreadable else []
        found["votes"] = [{"answer": answer, "count": count} for answer, count in vote.tally] + unread
    return found
