"""What went wrong → a status and a body in OpenAI's shape, so that its clients raise the exception they should.

{"error": {"message": "…", "type": "invalid_request_error", "param": "n", "code": "over_limit"}}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse

_TYPES = {401: "authentication_error", 429: "rate_limit_error", 504: "timeout_error"}


class Refusal(Exception):
    """A request that is not answered, and why.

    Args:
        status: HTTP status.
        message: What is wrong and the way out.
        param: The field it is about.
        code: A word for programs.
        headers: Sent with it.
    """

    def __init__(
        self,
        status: int,
        message: str,
        param: str | None = None,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ):
        super().__init__(message)
        self.status, self.message, self.param, self.code = status, message, param, code
        self.headers = dict(headers or {})

    @property
    def kind(self) -> str:
        """OpenAI's word for this class of errors."""
        return _TYPES.get(self.status, "server_error" if self.status >= 500 else "invalid_request_error")

    def body(self) -> dict[str, Any]:
        """The error as JSON."""
        return {"error": {"message": self.message, "type": self.kind, "param": self.param, "code": self.code}}

    def response(self) -> JSONResponse:
        """The error as an answer."""
        return JSONResponse(self.body(), self.status, self.headers)


def unsupported(param: str, why: str) -> Refusal:
    """A field, or a value of one, that this server cannot honour and will not ignore."""
    return Refusal(400, f"'{param}' is not supported here: {why}", param, "unsupported_parameter")


def of_validation(error: RequestValidationError) -> Refusal:
    """Everything wrong with a body's shape, in one sentence each; the values sent are not repeated."""
    found = [_sentence(e) for e in error.errors()]
    # one field of several forms fails once for each form
    sentences = list(dict.fromkeys(text for _, text in found))
    return Refusal(400, " ".join(sentences[:8]), found[0][0] if found else None, "invalid_value")


def _sentence(error: Mapping[str, Any]) -> tuple[str | None, str]:
    # ("body", "messages", 0, "content", "str") → messages.0.content
    place = [str(part) for part in error["loc"][1:] if not _is_form(str(part))]
    name, kind = ".".join(place) or None, error["type"]
    if kind == "json_invalid":
        return None, "The body is not valid JSON."
    if kind == "extra_forbidden":
        return name, f"Unrecognized request argument supplied: {name}."
    if kind == "missing":
        return name, f"Missing required parameter: '{name or 'body'}'."
    reason = str(error["msg"]).removeprefix("Value error, ")
    reason = reason.encode("utf-8", "replace").decode()
    return name, f"Invalid '{name or 'body'}': {reason[:300].rstrip('.')}."


def _is_form(part: str) -> bool:
    """Whether part of a place names one form of a union, such as `list[str]`, and no field."""
    return part in ("str", "int", "float", "bool", "dict", "TextPart") or "[" in part or "constrained" in part


EXAMPLE: dict[str, Any] = {"description": "Refused, in OpenAI's shape."}
