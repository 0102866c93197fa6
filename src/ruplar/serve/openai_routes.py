"""OpenAI's routes → answers: chat completions, completions, models."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from starlette.responses import Response

from ruplar.serve.call import Call, ClientLeft
from ruplar.serve.errors import Refusal
from ruplar.serve.events import Events, event
from ruplar.serve.registry import ModelRegistry, describe
from ruplar.serve.requests import RequestPlan, plan_chat, plan_completion
from ruplar.serve.responses import Kind, Shape
from ruplar.serve.sample import Sample
from ruplar.serve.schemas import ERRORS, ChatBody, ChatCompletion, Completion, CompletionBody

routes = APIRouter(prefix="/v1")


@routes.post("/chat/completions", responses={200: {"model": ChatCompletion}, **ERRORS}, summary="Answer a question")
async def chat_completions(body: ChatBody, request: Request) -> Response:
    """A chat of one question → the answer, whole or in pieces."""
    registry: ModelRegistry = request.app.state.registry
    return await _answer(registry, plan_chat(registry, body), "chat", request)


@routes.post("/completions", responses={200: {"model": Completion}, **ERRORS}, summary="Answer plain prompts")
async def completions(body: CompletionBody, request: Request) -> Response:
    """Questions as plain text → their answers, whole or in pieces."""
    registry: ModelRegistry = request.app.state.registry
    return await _answer(registry, plan_completion(registry, body), "text", request)


@routes.get("/models", responses={401: ERRORS[401]}, summary="List the models")
async def models(request: Request) -> dict[str, Any]:
    """The models served here."""
    registry: ModelRegistry = request.app.state.registry
    return {"object": "list", "data": [describe(w) for w in registry.workers.values()]}


@routes.get("/models/{name:path}", responses={401: ERRORS[401], 404: ERRORS[404]}, summary="Describe a model")
async def model(name: str, request: Request) -> dict[str, Any]:
    """One model."""
    return describe(request.app.state.registry.worker(name))


async def _answer(registry: ModelRegistry, plan: RequestPlan, kind: Kind, request: Request) -> Response:
    call = Call(registry.limits.timeout, request.receive)
    plan.worker.queue_up(call, plan.prompts, plan.n, plan.decoding, plan.stream or bool(plan.stops))
    samples = [Sample(plan.worker.model, plan.shows, plan.stops) for _ in call.tickets]
    shape = Shape(kind, plan.worker.name, plan.shows, plan.usage)
    if plan.stream:
        return Events(_stream(registry, plan, call, samples, shape), registry.limits.timeout)
    try:
        async with call:
            async for news in call.news():
                sample = samples[news.index]
                sample.take(news.row, news.final)
                if sample.finish and not news.final:
                    call.drop(news.index)
    except ClientLeft:
        registry.metrics.given_up.labels("client_left").inc()
        return Response(status_code=499)
    registry.metrics.answers(plan.worker.name, [s.row for s in samples])
    return JSONResponse(shape.body(samples, plan.prompt_tokens))


async def _stream(
    registry: ModelRegistry, plan: RequestPlan, call: Call, samples: list[Sample], shape: Shape
) -> AsyncIterator[bytes]:  # fmt: skip
    try:
        async with call:
            for index in range(len(samples)):
                for chunk in shape.opening(index):
                    yield event(chunk)
            async for news in call.news():
                sample = samples[news.index]
                piece = sample.take(news.row, news.final)
                if piece.finish and not news.final:
                    call.drop(news.index)
                found = shape.chunk(news.index, piece, sample) if piece else None
                if found is not None:
                    yield event(found)
        for chunk in shape.closing(samples, plan.prompt_tokens):
            yield event(chunk)
        registry.metrics.answers(plan.worker.name, [s.row for s in samples])
    except ClientLeft:
        registry.metrics.given_up.labels("client_left").inc()
        return
    except Refusal as refusal:  # the status has been sent; OpenAI's clients raise on this too
        registry.metrics.given_up.labels(refusal.code or "refused").inc()
        yield event(refusal.body())
    yield event("[DONE]")
