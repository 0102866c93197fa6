"""A request body → a checked generation request: model, prompts, number of answers and decoding options."""

import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ruplar.engine.sampling import Decoding
from ruplar.serve.errors import RequestError, check_fields, unsupported
from ruplar.serve.outputs import SampleOutput
from ruplar.serve.registry import ModelRegistry, ServedModel
from ruplar.serve.schemas import MAX_STOPS, ChatBody, CompletionBody, CompletionOptions, Message, MessagesMode
from ruplar.serve.streaming import RunningRequest
from ruplar.types import Prompt

_DEFAULT_TOKENS = Decoding().max_answer_tokens


@dataclass
class GenerationRequest:
    """A validated request."""

    model: ServedModel
    body: CompletionOptions
    prompts: list[Prompt]  # the tokenized questions
    decoding: Decoding
    warning: str | None  # what was left out of the request

    @property
    def prompt_tokens(self) -> int:
        return sum(len(p.ids) for p in self.prompts)

    def start(self, receive: Any, listen: bool) -> RunningRequest:
        """Queue all answers to all prompts; with `listen` their progress is reported as well."""
        running = RunningRequest(self.model.limits.timeout, receive)
        seeded, reasoning = self.body.seed is not None, bool(self.body.include_reasoning)
        self.model.submit(running, self.prompts, self.body.n or 1, self.decoding, listen, seeded)
        running.samples = [SampleOutput(self.model.model, reasoning, self.body.stops) for _ in running.tickets]
        return running


def parse_chat(registry: ModelRegistry, body: ChatBody) -> GenerationRequest:
    given = {t for t in (body.max_tokens, body.max_completion_tokens) if t is not None}
    if len(given) > 1:
        raise RequestError(
            400,
            "invalid_value",
            "max_tokens and max_completion_tokens differ. Send one of them.",
            "max_completion_tokens",
        )
    question, warning = chat_question(body.messages, registry.messages)
    wanted = _parse(registry, body, [question], given.pop() if given else None, "messages")
    wanted.warning = " ".join(filter(None, (warning, wanted.warning))) or None
    return wanted


def parse_completion(registry: ModelRegistry, body: CompletionBody) -> GenerationRequest:
    questions = [body.prompt] if isinstance(body.prompt, str) else list(body.prompt)
    if not questions:
        raise RequestError(400, "invalid_value", "prompt: contains no question.", "prompt")
    return _parse(registry, body, questions, body.max_tokens, "prompt")


def _parse(
    registry: ModelRegistry, body: CompletionOptions, questions: Sequence[str], tokens: int | None, param: str
) -> GenerationRequest:
    ignored = check_fields(body.model_extra)
    model, limits, count = registry.find(body.model), registry.limits, (body.n or 1) * len(questions)
    asked = {"n": (count, limits.answers), "max_tokens": (tokens or 0, limits.max_tokens)}
    for name, (given, most) in {**asked, "stop": (len(body.stops), MAX_STOPS)}.items():
        if given > most:
            raise RequestError(400, "over_limit", f"{name}: {given} requested; at most {most} are allowed.", name)
    decoding = _decoding(model, body, tokens or min(_DEFAULT_TOKENS, limits.max_tokens))
    model.check_queue(count)
    prompts = [model.prompt(q, param) for q in questions]
    # the warning is also a header, which has no line breaks and no other than ASCII characters
    shown = re.sub(r"[^ -~]", "?", ", ".join(name[:40] for name in ignored[:8]))
    warning = f"Ignored unknown fields: {shown}." if ignored else None
    return GenerationRequest(model, body, prompts, decoding, warning)


def _decoding(model: ServedModel, body: CompletionOptions, tokens: int) -> Decoding:
    if body.halt_threshold is not None and model.halt_threshold is None:
        raise unsupported("halt_threshold", f"is not supported: {model.name} does not use a halt threshold.")
    if body.noise and not model.accepts_noise:
        raise unsupported("noise", f"is not supported: {model.name} takes no noise on its latents.")
    seed = secrets.randbits(32) if body.seed is None else body.seed % 2**64
    top_p = body.top_p if body.top_p is not None else 1.0
    noise, threshold = body.noise or 0.0, body.halt_threshold
    return Decoding(body.temperature or 0.0, top_p, seed, tokens, noise=noise, halt_threshold=threshold)


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
