"""A request body → a checked generation request: model, prompts, number of answers and decoding options."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ruplar.engine.sampling import Decoding
from ruplar.serve.errors import RequestError, check_fields, unsupported
from ruplar.serve.registry import ModelRegistry, Worker, seed_of
from ruplar.serve.schemas import MAX_STOPS, ChatBody, CompletionBody, CompletionOptions, Message, MessagesMode
from ruplar.types import Prompt

DEFAULT_TOKENS = Decoding().max_answer_tokens


@dataclass
class GenerationRequest:
    """A validated request."""

    worker: Worker
    prompts: list[Prompt]  # the tokenized questions
    n: int  # answers per question
    decoding: Decoding
    stops: list[str]
    include_reasoning: bool
    stream: bool
    usage: bool  # end a stream with a usage chunk
    warning: str | None  # what was left out of the request

    @property
    def prompt_tokens(self) -> int:
        return sum(len(p.ids) for p in self.prompts)


def parse_chat(registry: ModelRegistry, body: ChatBody) -> GenerationRequest:
    given = {t for t in (body.max_tokens, body.max_completion_tokens) if t is not None}
    if len(given) > 1:
        raise RequestError(
            400,
            "max_tokens and max_completion_tokens differ. Send one of them.",
            "max_completion_tokens",
            "invalid_value",
        )
    question, warning = chat_question(body.messages, registry.messages)
    wanted = _parse(registry, body, [question], given.pop() if given else None, "messages")
    wanted.warning = " ".join(filter(None, (warning, wanted.warning))) or None
    return wanted


def parse_completion(registry: ModelRegistry, body: CompletionBody) -> GenerationRequest:
    questions = [body.prompt] if isinstance(body.prompt, str) else list(body.prompt)
    if not questions:
        raise RequestError(400, "prompt: contains no question.", "prompt", "invalid_value")
    return _parse(registry, body, questions, body.max_tokens, "prompt")


def _parse(
    registry: ModelRegistry, body: CompletionOptions, questions: Sequence[str], tokens: int | None, param: str
) -> GenerationRequest:
    ignored = check_fields(body.model_extra)
    worker, limits, n = registry.worker(body.model), registry.limits, body.n or 1
    if n * len(questions) > limits.max_n:
        raise RequestError(
            400, f"n: {n * len(questions)} answers requested; at most {limits.max_n} are allowed.", "n", "over_limit"
        )
    if tokens is not None and tokens > limits.max_tokens:
        raise RequestError(
            400, f"max_tokens: {tokens} answer tokens requested; at most {limits.max_tokens} are allowed.", "max_tokens",
            "over_limit",
        )  # fmt: skip
    if len(body.stops) > MAX_STOPS:
        raise RequestError(400, f"stop: at most {MAX_STOPS} stop strings.", "stop", "over_limit")
    decoding = make_decoding(
        worker, body.temperature or 0.0, body.top_p if body.top_p is not None else 1.0, body.seed,
        tokens or min(DEFAULT_TOKENS, limits.max_tokens), (body.halt_threshold, body.noise),
    )  # fmt: skip
    worker.check_queue(n * len(questions))
    prompts = [worker.prompt(q, param) for q in questions]
    usage = bool(body.stream_options and body.stream_options.include_usage)
    # the warning is also a header, which has no line breaks and no other than ASCII characters
    shown = re.sub(r"[^ -~]", "?", ", ".join(name[:40] for name in ignored[:8]))
    warning = f"Ignored unknown fields: {shown}." if ignored else None
    return GenerationRequest(
        worker, prompts, n, decoding, body.stops, bool(body.include_reasoning), bool(body.stream), usage, warning
    )


def make_decoding(
    worker: Worker,
    temperature: float,
    top_p: float,
    seed: int | None,
    tokens: int,
    thinking: tuple[float | None, float | None],
) -> Decoding:
    """Return the decoding options; `thinking` is the halt threshold and the noise, None for the model's defaults."""
    threshold, noise = thinking
    if threshold is not None and worker.halt_threshold is None:
        raise unsupported("halt_threshold", f"is not supported: {worker.name} does not use a halt threshold.")
    if noise and not worker.accepts_noise:
        raise unsupported("noise", f"is not supported: {worker.name} takes no noise on its latents.")
    return Decoding(temperature, top_p, seed_of(seed), tokens, noise=noise or 0.0, halt_threshold=threshold)


def chat_question(messages: Sequence[Message], mode: MessagesMode) -> tuple[str, str | None]:
    """Return the question of a chat, and a warning that names what was left out.

    The model was trained on single questions: preceding text makes answers worse, and it has never seen its own turns. So
    several messages are refused, unless the server was started with `--messages last`.
    """
    roles = [message.role for message in messages]
    if mode == "last":
        if "user" not in roles:
            raise unsupported("messages", "none is from the user.")
        at = len(roles) - 1 - roles[::-1].index("user")
        others = ", ".join(roles[:at] + roles[at + 1 :])
        warning = f"Only the last user message was answered. The model does not read these: {others}."
        return messages[at].text, warning if others else None
    if len(messages) > 1:
        what = "system messages" if {"system", "developer"} & set(roles) else "several messages"
        raise unsupported(
            "messages", f"this model reads one question and was trained without {what}. Send one user message, or start "
            "the server with --messages last to answer the last one."
        )  # fmt: skip
    if roles != ["user"]:
        raise unsupported("messages", "the last message must be the user's question.")
    return messages[0].text, None
