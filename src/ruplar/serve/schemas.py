"""Schemas of request bodies (OpenAI's fields and a few extensions) and of errors, and the server's limits.

Fields that are not supported are listed in `request_fields.yaml`; responses are built in `openai_routes`.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from ruplar.settings import Settings

MAX_STOPS = 16
MAX_CHARS_PER_TOKEN = 32
"""A question longer than this many characters per allowed token is rejected before it is tokenized."""


class Limits(Settings):
    """Limits of a server, checked before anything is allocated for a request; each is an option of `ruplar serve`."""

    slots: int = Field(32, ge=1, description="Maximum number of questions processed concurrently.")
    max_queue: int = Field(512, ge=1, description="Maximum queued questions; beyond it, requests get status 429.")
    max_prompt: int = Field(384, ge=16, description="Maximum prompt tokens of a question.")
    max_tokens: int = Field(256, ge=1, description="Maximum answer tokens a request may set.")
    max_n: int = Field(16, ge=1, description="Maximum answers per request (n), over all its prompts.")
    max_body: int = Field(262_144, ge=64, description="Maximum bytes of a request body; beyond it, status 413.")
    timeout: float = Field(60.0, ge=0.01, le=1e8, description="Timeout of a request in seconds; status 504.")
    max_connections: int = Field(1024, ge=8, description="Maximum open connections; beyond it, status 429.")
    max_client_connections: int = Field(
        768, ge=1, description="Maximum open connections of one client address; raise it behind a proxy."
    )

    @property
    def characters(self) -> int:
        return self.max_prompt * MAX_CHARS_PER_TOKEN

    @property
    def answers(self) -> int:
        """Maximum answers of a request: more than the queue holds could never be accepted."""
        return min(self.max_n, self.max_queue)


MessagesMode = Literal["single", "last"]
Stop = Annotated[str, Field(min_length=1, max_length=256)]
Text = Annotated[str, Field(min_length=1)]


class Extra(BaseModel):
    """Keeps unknown fields, so that `errors.check_fields` can report them."""

    model_config = ConfigDict(extra="allow", allow_inf_nan=False)


class StreamOptions(BaseModel):
    """Options of a stream."""

    model_config = ConfigDict(extra="forbid")

    include_usage: bool | None = Field(None, description="Send a last chunk with the usage.")
    include_obfuscation: bool | None = Field(None, description="Accepted and ignored.")


class CompletionOptions(Extra):
    """Fields that chat and plain completions share."""

    model: str = Field(min_length=1, max_length=512, description="A name listed by /v1/models.")
    n: int | None = Field(None, ge=1, description="Answers per prompt.")
    max_tokens: int | None = Field(None, ge=1, description="Maximum answer tokens; the model limits the thought.")
    temperature: float | None = Field(
        None, ge=0, le=2, description="Sampling temperature of the answer; 0, the default, is greedy."
    )
    top_p: float | None = Field(
        None,
        gt=0,
        le=1,
        description="Nucleus sampling: sample from the most likely tokens with this cumulative probability.",
    )
    seed: int | None = Field(
        None,
        ge=-(2**63),
        le=2**63 - 1,
        description="Random seed; the same seed gives the same answers. Default: random.",
    )
    stop: Stop | list[Stop] | None = Field(
        None, description=f"At most {MAX_STOPS} stop strings; the answer ends before them."
    )
    stream: bool | None = Field(None, description="Stream the answer as server-sent events.")
    stream_options: StreamOptions | None = None
    include_reasoning: bool | None = Field(None, description="Include the thought. Extension.")
    halt_threshold: float | None = Field(
        None,
        gt=0,
        lt=1,
        description="Halting probability above which a thought ends. Default: the model's. Extension.",
    )
    noise: float | None = Field(
        None, ge=0, le=10, description="Scale of the Gumbel noise on the latents, so that n answers differ. Extension."
    )

    @property
    def stops(self) -> list[str]:
        return [self.stop] if isinstance(self.stop, str) else list(self.stop or [])


class TextPart(BaseModel):
    """One part of a message's content."""

    model_config = ConfigDict(extra="forbid")

    type: Literal["text"]
    text: str


class Message(Extra):
    """One message of a conversation."""

    role: Literal["user", "system", "developer", "assistant", "tool", "function"]
    content: str | list[TextPart] | None = None
    name: str | None = Field(None, description="Accepted and ignored.")
    type: Literal["text", "message"] | None = Field(None, description="Accepted and ignored.")

    @property
    def text(self) -> str:
        if isinstance(self.content, str):
            return self.content
        return "\n".join(part.text for part in self.content or [])


class ChatBody(CompletionOptions):
    """POST /v1/chat/completions."""

    messages: list[Message] = Field(min_length=1)
    max_completion_tokens: int | None = Field(None, ge=1, description="Newer name of max_tokens.")


class CompletionBody(CompletionOptions):
    """POST /v1/completions. A prompt is a question, formatted as in training."""

    prompt: Text | list[Text] = Field(description="One question or several; token ids are not accepted.")


class ErrorDetail(BaseModel):
    """Details of an error."""

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorBody(BaseModel):
    """An error in OpenAI's format."""

    error: ErrorDetail


ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorBody}
    for status in (400, 401, 404, 408, 413, 415, 429, 500, 503, 504)
}  # fmt: skip
