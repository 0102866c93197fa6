"""A body → what is asked of which model: prompts, how many answers, how they are decoded. Everything is checked here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ruplar.engine.sampling import Decoding
from ruplar.serve.errors import Refusal, unsupported
from ruplar.serve.fields import check_fields
from ruplar.serve.registry import ModelRegistry, Worker, seed_of
from ruplar.serve.schemas import MOST_STOPS, Asking, ChatBody, CompletionBody, Message
from ruplar.types import Prompt

DEFAULT_TOKENS = Decoding().max_answer_tokens


@dataclass
class RequestPlan:
    """A request that has passed all checks.

    Attributes:
        worker: The model.
        prompts: The questions.
        n: Answers to each.
        decoding: How they are thought through and decoded.
        stops: Texts before which an answer ends.
        shows: Show the thought.
        stream: Send pieces.
        usage: Send the usage at a stream's end.
    """

    worker: Worker
    prompts: list[Prompt]
    n: int
    decoding: Decoding
    stops: list[str]
    shows: bool
    stream: bool
    usage: bool

    @property
    def prompt_tokens(self) -> int:
        """Tokens read, each prompt counted once."""
        return sum(len(p.ids) for p in self.prompts)


def plan_chat(registry: ModelRegistry, body: ChatBody) -> RequestPlan:
    """A chat → one question."""
    given = {t for t in (body.max_tokens, body.max_completion_tokens) if t is not None}
    if len(given) > 1:
        raise Refusal(
            400,
            "max_tokens and max_completion_tokens differ. Send one of them.",
            "max_completion_tokens",
            "invalid_value",
        )
    return _plan(
        registry, body, [question_of(body.messages, registry.joins)], given.pop() if given else None, "messages"
    )


def plan_completion(registry: ModelRegistry, body: CompletionBody) -> RequestPlan:
    """Plain prompts → questions."""
    questions = [body.prompt] if isinstance(body.prompt, str) else list(body.prompt)
    if not questions:
        raise Refusal(400, "prompt: holds no question.", "prompt", "invalid_value")
    return _plan(registry, body, questions, body.max_tokens, "prompt")


def _plan(
    registry: ModelRegistry, body: Asking, questions: Sequence[str], tokens: int | None, param: str
) -> RequestPlan:
    check_fields(body.model_extra)
    worker, limits, n = registry.worker(body.model), registry.limits, body.n or 1
    if n * len(questions) > limits.max_n:
        raise Refusal(
            400, f"n: {n * len(questions)} answers are asked for; at most {limits.max_n} are given.", "n", "over_limit"
        )
    if tokens is not None and tokens > limits.max_tokens:
        raise Refusal(
            400, f"max_tokens: at most {limits.max_tokens} answer tokens are given here, asked for {tokens}.", "max_tokens",
            "over_limit",
        )  # fmt: skip
    if len(body.stops) > MOST_STOPS:
        raise Refusal(400, f"stop: at most {MOST_STOPS} texts.", "stop", "over_limit")
    decoding = decoding_of(
        worker, body.temperature or 0.0, body.top_p if body.top_p is not None else 1.0, body.seed,
        tokens or min(DEFAULT_TOKENS, limits.max_tokens), (body.halt_threshold, body.noise),
    )  # fmt: skip
    worker.check_queue(n * len(questions))
    prompts = [worker.prompt(q, param) for q in questions]
    usage = bool(body.stream_options and body.stream_options.include_usage)
    return RequestPlan(worker, prompts, n, decoding, body.stops, body.shows_thought, bool(body.stream), usage)


def decoding_of(
    worker: Worker,
    temperature: float,
    top_p: float,
    seed: int | None,
    tokens: int,
    thinking: tuple[float | None, float | None],
) -> Decoding:
    """How answers are decoded; `thinking` is the halt threshold and the noise, None where the model's own hold."""
    threshold, noise = thinking
    if threshold is not None and worker.threshold is None:
        raise unsupported("halt_threshold", f"{worker.name} does not halt by a threshold.")
    if noise and not worker.noisy:
        raise unsupported("noise", f"the thoughts of {worker.name} take no noise.")
    return Decoding(temperature, top_p, seed_of(seed), tokens, noise=noise or 0.0, halt_threshold=threshold)


def question_of(messages: Sequence[Message], joins: bool) -> str:
    """The question of a chat.

    The model was trained on single questions: what stands before one changes its answer for the worse, and it has
    never seen a turn of its own. So nothing is joined unless the server's owner says so, and nothing is left out.
    """
    roles = [message.role for message in messages]
    if any(role in ("assistant", "tool", "function") for role in roles):
        raise unsupported(
            "messages", "this model answers single questions and reads no earlier turns. Send the question alone."
        )
    if len(messages) > 1 and not joins:
        what = "system messages" if {"system", "developer"} & set(roles) else "several messages"
        raise unsupported(
            "messages", f"this model reads one question and was trained without {what}. Send one user message, or start "
            "the server with --join-messages to have them put before the question."
        )  # fmt: skip
    if roles[-1] != "user":
        raise unsupported("messages", "the last message must be the user's question.")
    return "\n".join(message.text for message in messages)
