"""Fields of OpenAI's API that this server has no use for → taken, taken at their neutral value, or refused by name.

A field that could change the answer is never ignored: it is honoured, or refused with the reason.
"""

from __future__ import annotations

from typing import Any

from ruplar.serve.errors import Refusal, unsupported

IGNORED = frozenset(
    {
        *("user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key", "parallel_tool_calls"),
        *("prompt_cache_retention",),
    }
)
"""Fields that never change an answer; taken and not looked at."""

NEUTRAL: dict[str, tuple[tuple[Any, ...], str]] = {
    "frequency_penalty": ((0,), "answers are a few tokens long; only 0 is taken."),
    "presence_penalty": ((0,), "answers are a few tokens long; only 0 is taken."),
    "logit_bias": (({},), "the distribution of answers is the model's own."),
    "logprobs": ((False, 0), "probabilities of the thought are in reasoning_details; those of answers are not given."),
    "top_logprobs": ((0,), "see logprobs."),
    "tools": (([],), "this model calls no tools."),
    "tool_choice": (("none", "auto"), "this model calls no tools."),
    "functions": (([],), "this model calls no functions."),
    "function_call": (("none", "auto"), "this model calls no functions."),
    "response_format": (({"type": "text"},), "the answer is plain text, in the format the model was trained on."),
    "modalities": ((["text"],), "this model writes text."),
    "audio": ((), "this model writes text."),
    "prediction": ((), "answers are not predicted."),
    "reasoning_effort": ((), "the model itself decides when a thought is over; see halt_threshold."),
    "verbosity": ((), "the model was trained on one format of answers."),
    "web_search_options": ((), "this model does not search."),
    "best_of": ((1,), "ask for n answers and choose among them."),
    "echo": ((False,), "the prompt is not repeated."),
    "suffix": (("",), "this model continues nothing; it answers questions."),
}
"""Fields that are taken when absent, null or neutral: name → neutral values, and why no other is."""

EMBEDDINGS = frozenset({"prompt_embeds", "input_embeds", "inputs_embeds", "embeddings", "latents", "soft_tokens"})
"""Never taken from a client: an embedding could be anything, a control token included."""


def check_fields(extra: dict[str, Any] | None) -> None:
    """Refuse the first field that cannot be honoured.

    Args:
        extra: What a body holds beyond the fields of its schema.

    Raises:
        Refusal: 400, naming the field.
    """
    for name, value in (extra or {}).items():
        if name in IGNORED:
            continue
        if name in EMBEDDINGS:
            raise unsupported(name, "embeddings are not accepted from clients. Send text.")
        if name not in NEUTRAL:
            shown = name[:100].encode("utf-8", "replace").decode()
            raise Refusal(400, f"Unrecognized request argument supplied: {shown}", shown, "unknown_parameter")
        neutral, why = NEUTRAL[name]
        if value is not None and value not in neutral:
            raise unsupported(name, why)
