"""OpenAI's routes: chat completions, completions and models, with responses and stream chunks in OpenAI's format."""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from starlette.responses import Response

from ruplar import __version__
from ruplar.serve.errors import RequestError
from ruplar.serve.outputs import SampleOutput, latent_as_dict, thought_text
from ruplar.serve.registry import ModelRegistry, describe
from ruplar.serve.requests import GenerationRequest, parse_chat, parse_completion
from ruplar.serve.schemas import ERRORS, ChatBody, CompletionBody
from ruplar.serve.streaming import ClientDisconnected, EventStream, RunningRequest, SampleUpdate, sse
from ruplar.types import Latent

routes = APIRouter(prefix="/v1")


@routes.post("/chat/completions", responses=ERRORS, summary="Answer a question")
async def chat_completions(body: ChatBody, request: Request) -> Response:
    """Answer a chat of one question, in one response or as a stream."""
    registry: ModelRegistry = request.app.state.registry
    return await _answer(registry, parse_chat(registry, body), "chat", request)


@routes.post("/completions", responses=ERRORS, summary="Answer plain prompts")
async def completions(body: CompletionBody, request: Request) -> Response:
    """Answer plain-text questions, in one response or as a stream."""
    registry: ModelRegistry = request.app.state.registry
    return await _answer(registry, parse_completion(registry, body), "text", request)


@routes.get("/models", responses={401: ERRORS[401]}, summary="List the models")
async def models(request: Request) -> dict[str, Any]:
    """List the models."""
    registry: ModelRegistry = request.app.state.registry
    return {"object": "list", "data": [describe(one) for one in registry.models.values()]}


@routes.get("/models/{name:path}", responses={401: ERRORS[401], 404: ERRORS[404]}, summary="Describe a model")
async def model(name: str, request: Request) -> dict[str, Any]:
    """Describe one model."""
    return describe(request.app.state.registry.find(name))


async def _answer(registry: ModelRegistry, wanted: GenerationRequest, kind: Kind, request: Request) -> Response:
    running = wanted.start(request.receive, bool(wanted.body.stream or wanted.body.stops))
    builder = ResponseBuilder(kind, wanted)
    headers = {"x-ruplar-warning": wanted.warning} if wanted.warning else {}
    if wanted.body.stream:
        return EventStream(_stream(registry, running, builder), registry.limits.timeout, headers)
    try:
        async with running:
            async for _ in running.updates():
                pass
    except ClientDisconnected:
        return Response(status_code=499)
    registry.metrics.answers(wanted.model.name, running.samples)
    return JSONResponse(builder.body(running.samples), headers=headers)


async def _stream(
    registry: ModelRegistry, running: RunningRequest, builder: ResponseBuilder
) -> AsyncGenerator[bytes, None]:
    try:
        async with running:
            for index in range(len(running.samples) if builder.kind == "chat" else 0):
                yield sse(builder.opening(index))
            async for update in running.updates():
                if update.delta:
                    yield sse(builder.chunk(update))
        if builder.usage:
            yield sse(builder.closing(running.samples))
        registry.metrics.answers(builder.wanted.model.name, running.samples)
    except RequestError as error:  # status 200 has been sent; OpenAI's clients also raise on this event
        yield sse(error.body())
    yield sse("[DONE]")


Kind = Literal["chat", "text"]
_OBJECTS = {"chat": ("chat.completion", "chat.completion.chunk"), "text": ("text_completion", "text_completion")}
"""What `object` says of a whole response, and of a chunk of a stream."""


@dataclass
class ResponseBuilder:
    """Build the response body or the stream chunks of one request."""

    kind: Kind  # chat or plain completion
    wanted: GenerationRequest
    id: str = field(init=False)
    created: int = field(init=False)

    def __post_init__(self):
        self.id = f"{'chatcmpl' if self.kind == 'chat' else 'cmpl'}-{secrets.token_hex(12)}"
        self.created = int(time.time())

    @property
    def usage(self) -> bool:
        """Whether a stream ends with a usage chunk."""
        options = self.wanted.body.stream_options
        return bool(options and options.include_usage)

    def body(self, samples: Sequence[SampleOutput]) -> dict[str, Any]:
        choices = [self._choice(i, sample) for i, sample in enumerate(samples)]
        return self._envelope(choices) | {"usage": usage(samples, self.wanted.prompt_tokens)}

    def opening(self, index: int) -> dict[str, Any]:
        return self._chunk(index, {"role": "assistant", "content": ""})

    def chunk(self, update: SampleUpdate) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        delta = update.delta
        if delta.latents or delta.thought:
            fields = _reasoning(delta.thought, delta.latents, len(update.sample.latents) - len(delta.latents))
        if delta.text or self.kind == "text":
            fields["content" if self.kind == "chat" else "text"] = delta.text
        return self._chunk(update.index, fields, delta.finish)

    def closing(self, samples: Sequence[SampleOutput]) -> dict[str, Any]:
        return self._envelope([], chunk=True) | {"usage": usage(samples, self.wanted.prompt_tokens)}

    def _chunk(self, index: int, fields: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        content = {"delta": fields} if self.kind == "chat" else fields
        choice = {"index": index, **content, "logprobs": None, "finish_reason": finish}
        return self._envelope([choice], chunk=True) | ({"usage": None} if self.usage else {})

    def _envelope(self, choices: list[dict[str, Any]], chunk: bool = False) -> dict[str, Any]:
        return {
            "id": self.id,
            "object": _OBJECTS[self.kind][chunk],
            "created": self.created,
            "model": self.wanted.model.name,
            "system_fingerprint": f"ruplar-{__version__}",
            "choices": choices,
            **({"warning": self.wanted.warning} if self.wanted.warning else {}),
        }

    def _choice(self, index: int, sample: SampleOutput) -> dict[str, Any]:
        reasoning = _reasoning(sample.thought.text, sample.latents) if self.wanted.body.include_reasoning else {}
        end = {"logprobs": None, "finish_reason": sample.finish}
        if self.kind == "chat":
            message = {"role": "assistant", "content": sample.answer.text, "refusal": None, **reasoning}
            return {"index": index, "message": message, **end}
        return {"index": index, "text": sample.answer.text, **reasoning, **end}


def usage(samples: Sequence[SampleOutput], prompt_tokens: int) -> dict[str, Any]:
    """Return the token usage; latents count as completion tokens, like reasoning tokens elsewhere."""
    thought = sum(s.row.latent_count for s in samples)
    completion = thought + sum(len(s.row.answer_ids) for s in samples)
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion,
        "total_tokens": prompt_tokens + completion,
        "completion_tokens_details": {"reasoning_tokens": thought},
    }


def _reasoning(written: str, latents: Sequence[Latent], first: int = 0) -> dict[str, Any]:
    """Return a written thought, or the latents from number `first` on, as two fields of a message or a delta."""
    if written:
        return {"reasoning": written, "reasoning_details": [{"type": "text", "index": 0, "text": written}]}
    details = [{"type": "latent", **latent_as_dict(z, index)} for index, z in enumerate(latents, first)]
    return {"reasoning": (" → " if first else "") + thought_text(latents), "reasoning_details": details}
