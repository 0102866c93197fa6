"""Samples → bodies and chunks in OpenAI's shape: chat completions and plain completions differ in little but names."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ruplar import __version__
from ruplar.serve.sample import Piece, Sample, latent_as_dict, thought_text

Kind = Literal["chat", "text"]
_OBJECTS = {"chat": "chat.completion", "text": "text_completion"}


@dataclass
class Shape:
    """What all bodies and chunks of one request have in common.

    Attributes:
        kind: Chat or plain.
        model: The model's name.
        shows: The thought is shown.
        usage: A stream ends with the usage.
    """

    kind: Kind
    model: str
    shows: bool = False
    usage: bool = False
    id: str = field(init=False)
    created: int = field(init=False)

    def __post_init__(self):
        self.id = f"{'chatcmpl' if self.kind == 'chat' else 'cmpl'}-{secrets.token_hex(12)}"
        self.created = int(time.time())

    def body(self, samples: Sequence[Sample], prompt_tokens: int) -> dict[str, Any]:
        """The whole answer."""
        choices = [self._choice(i, sample) for i, sample in enumerate(samples)]
        return self._around(_OBJECTS[self.kind], choices) | {"usage": usage(samples, prompt_tokens)}

    def opening(self, index: int) -> list[dict[str, Any]]:
        """A stream's first chunks for one sample."""
        return [self._chunk(index, {"role": "assistant", "content": ""})] if self.kind == "chat" else []

    def chunk(self, index: int, piece: Piece, sample: Sample) -> dict[str, Any] | None:
        """A piece as a chunk; None when there is nothing to say."""
        delta: dict[str, Any] = {}
        if piece.latents:
            first = len(sample.latents) - len(piece.latents)
            delta["reasoning"] = (" → " if first else "") + thought_text(piece.latents)
            delta["reasoning_details"] = [_latent(z, first + i) for i, z in enumerate(piece.latents)]
        if piece.thought:
            delta["reasoning"] = piece.thought
            delta["reasoning_details"] = [_written(piece.thought)]
        if piece.text or self.kind == "text":
            delta["content" if self.kind == "chat" else "text"] = piece.text
        if not (piece.text or piece.latents or piece.thought or piece.finish):
            return None
        return self._chunk(index, delta, piece.finish)

    def closing(self, samples: Sequence[Sample], prompt_tokens: int) -> list[dict[str, Any]]:
        """A stream's last chunks."""
        if not self.usage:
            return []
        return [self._around(self._chunk_object, []) | {"usage": usage(samples, prompt_tokens)}]

    @property
    def _chunk_object(self) -> str:
        return "chat.completion.chunk" if self.kind == "chat" else "text_completion"

    def _chunk(self, index: int, delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        said = {"delta": delta} if self.kind == "chat" else delta
        choice = {"index": index, **said, "logprobs": None, "finish_reason": finish}
        return self._around(self._chunk_object, [choice]) | ({"usage": None} if self.usage else {})

    def _around(self, name: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "id": self.id,
            "object": name,
            "created": self.created,
            "model": self.model,
            "system_fingerprint": f"ruplar-{__version__}",
            "choices": choices,
        }

    def _choice(self, index: int, sample: Sample) -> dict[str, Any]:
        thought = _thought(sample) if self.shows else {}
        end = {"logprobs": None, "finish_reason": sample.finish}
        if self.kind == "chat":
            message = {"role": "assistant", "content": sample.answer.text, "refusal": None, **thought}
            return {"index": index, "message": message, **end}
        return {"index": index, "text": sample.answer.text, **thought, **end}


def usage(samples: Sequence[Sample], prompt_tokens: int) -> dict[str, Any]:
    """What a request cost: latents count as completion tokens, as reasoning tokens do everywhere."""
    thought = sum(s.row.latent_count for s in samples)
    completion = thought + sum(len(s.row.answer_ids) for s in samples)
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion,
        "total_tokens": prompt_tokens + completion,
        "completion_tokens_details": {"reasoning_tokens": thought},
    }


def _thought(sample: Sample) -> dict[str, Any]:
    if sample.thought.text:
        return {"reasoning": sample.thought.text, "reasoning_details": [_written(sample.thought.text)]}
    details = [_latent(z, i) for i, z in enumerate(sample.latents)]
    return {"reasoning": thought_text(sample.latents), "reasoning_details": details}


def _latent(latent: Any, index: int) -> dict[str, Any]:
    return {"type": "latent", **latent_as_dict(latent, index)}


def _written(text: str) -> dict[str, Any]:
    return {"type": "text", "index": 0, "text": text}
