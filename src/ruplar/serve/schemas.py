"""Bodies of requests → checked records: OpenAI's fields that are honoured, and our few extensions.

Bounds a server's owner may set (`n`, tokens) are not here but in `limits`; fields that are not honoured are in `fields`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

MOST_STOPS = 16

Stop = Annotated[str, Field(min_length=1, max_length=256)]
Text = Annotated[str, Field(min_length=1)]


class Extra(BaseModel):
    """Keeps unknown fields, so that `fields.check_fields` can say what is wrong with them."""

    model_config = ConfigDict(extra="allow", allow_inf_nan=False)


class Strict(BaseModel):
    """Refuses unknown fields by name."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class StreamOptions(Strict):
    """How a stream is sent."""

    include_usage: bool | None = Field(None, description="Send a last chunk with the usage.")
    include_obfuscation: bool | None = Field(None, description="Taken and not looked at.")


class ReasoningOptions(Strict):
    """Whether the thought is shown."""

    enabled: bool | None = Field(None, description="Show the thought.")
    exclude: bool | None = Field(None, description="Do not show it.")


class Asking(Extra):
    """What chat and plain completions have in common."""

    model: str = Field(min_length=1, max_length=512, description="A name listed by /v1/models.")
    n: int | None = Field(None, ge=1, description="Answers to each prompt.")
    temperature: float | None = Field(None, ge=0, le=2, description="Of the answer; 0, the default, is greedy.")
    top_p: float | None = Field(None, gt=0, le=1, description="Sample among the likeliest tokens holding this much.")
    seed: int | None = Field(
        None, ge=-(2**63), le=2**63 - 1, description="The same seed gives the same answers; drawn anew when left out."
    )
    stop: Stop | list[Stop] | None = Field(None, description=f"At most {MOST_STOPS}; the answer ends before them.")
    stream: bool | None = Field(None, description="Send the answer piece by piece, as server-sent events.")
    stream_options: StreamOptions | None = None
    include_reasoning: bool | None = Field(None, description="Show the thought. Extension.")
    reasoning: ReasoningOptions | None = Field(None, description="The same, as other servers spell it. Extension.")
    halt_threshold: float | None = Field(
        None, gt=0, lt=1, description="P(halt) above which a thought ends; the model's own when left out. Extension."
    )
    noise: float | None = Field(
        None, ge=0, le=10, description="Gumbel noise on the thought, so that n answers differ. Extension."
    )

    @property
    def stops(self) -> list[str]:
        """The stop texts, as a list."""
        return [self.stop] if isinstance(self.stop, str) else list(self.stop or [])

    @property
    def shows_thought(self) -> bool:
        """Whether the thought is to be shown."""
        asked = self.reasoning
        if asked is not None and not asked.exclude and asked.enabled is not False:
            return True
        return bool(self.include_reasoning)


class TextPart(Strict):
    """One part of a message's content."""

    type: Literal["text"]
    text: str


class Message(Strict):
    """One message of a conversation."""

    role: Literal["user", "system", "developer", "assistant", "tool", "function"]
    content: str | list[TextPart] | None = None
    name: str | None = Field(None, description="Taken and not looked at.")
    type: Literal["text", "message"] | None = Field(None, description="Taken and not looked at.")

    @property
    def text(self) -> str:
        """The content as one text."""
        if isinstance(self.content, str):
            return self.content
        return "\n".join(part.text for part in self.content or [])


class ChatBody(Asking):
    """POST /v1/chat/completions."""

    messages: list[Message] = Field(min_length=1)
    max_tokens: int | None = Field(None, ge=1, description="Most answer tokens; thoughts are bounded by the model.")
    max_completion_tokens: int | None = Field(None, ge=1, description="The same; the newer name.")


class CompletionBody(Asking):
    """POST /v1/completions. A prompt is a question, put into the frame the model was trained with."""

    prompt: Text | list[Text] = Field(description="One question or several; token ids are not accepted.")
    max_tokens: int | None = Field(None, ge=1, description="Most answer tokens; thoughts are bounded by the model.")


class ThinkBody(Strict):
    """POST /api/think."""

    question: str = Field(min_length=1)
    method: Literal["ruplar", "cot"] = Field(description="The loaded model, or the text-CoT model beside it.")
    halt_threshold: float | None = Field(None, gt=0, lt=1)
    samples: int = Field(1, ge=1)
    noise: float | None = Field(None, ge=0, le=10)
    temperature: float = Field(0.0, ge=0, le=2)
    seed: int = Field(0, ge=0, le=2**63 - 1)


class ErrorDetail(BaseModel):
    """What went wrong."""

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorBody(BaseModel):
    """An error in OpenAI's shape."""

    error: ErrorDetail


class Latent(BaseModel):
    """One soft token (`latent`) or the written thought (`text`) in `reasoning_details`."""

    type: Literal["latent", "text"]
    index: int
    tokens: list[str] | None = None
    probs: list[float] | None = None
    entropy: float | None = None
    halt: float | None = None
    text: str | None = None


class ReasoningTokens(BaseModel):
    """How many of the completion's tokens were thought."""

    reasoning_tokens: int


class Usage(BaseModel):
    """What a request cost."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    completion_tokens_details: ReasoningTokens


class ChatMessage(BaseModel):
    """An answer."""

    role: Literal["assistant"]
    content: str
    refusal: None = None
    reasoning: str | None = None
    reasoning_details: list[Latent] | None = None


class ChatChoice(BaseModel):
    """One of n answers."""

    index: int
    message: ChatMessage
    finish_reason: Literal["stop", "length"]
    logprobs: None = None


class ChatCompletion(BaseModel):
    """Answers of a chat."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[ChatChoice]
    usage: Usage
    system_fingerprint: str


class TextChoice(BaseModel):
    """One of n answers."""

    index: int
    text: str
    finish_reason: Literal["stop", "length"]
    logprobs: None = None
    reasoning: str | None = None
    reasoning_details: list[Latent] | None = None


class Completion(BaseModel):
    """Answers of a plain completion."""

    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    choices: list[TextChoice]
    usage: Usage
    system_fingerprint: str


ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorBody}
    for status in (400, 401, 404, 408, 413, 415, 429, 500, 503, 504)
}  # fmt: skip
