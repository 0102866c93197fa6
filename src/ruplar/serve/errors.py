"""Errors → a status and a body in OpenAI's format, so that its clients raise the right exception; unsupported request fields.

{"error": {"message": "…", "type": "invalid_request_error", "param": "n", "code": "over_limit"}}

A known field that could change the answer is honoured, or rejected with a reason. Unknown fields are ignored, and the
response names them in its `warning`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse

_TYPES = {401: "authentication_error", 429: "rate_limit_error", 504: "timeout_error"}


class RequestError(Exception):
    """A request that gets an error response."""

    def __init__(self, status: int, code: str | None, message: str, param: str | None = None, headers: Mapping = {}):
        super().__init__(message)
        self.status, self.message, self.param, self.code = status, message, param, code
        self.headers = dict(headers or {})

    @property
    def kind(self) -> str:
        return _TYPES.get(self.status, "server_error" if self.status >= 500 else "invalid_request_error")

    def body(self) -> dict[str, Any]:
        return {"error": {"message": self.message, "type": self.kind, "param": self.param, "code": self.code}}

    def response(self) -> JSONResponse:
        return JSONResponse(self.body(), self.status, self.headers)


def unsupported(param: str, why: str) -> RequestError:
    """Return the error for a field, or a value of one, that this server cannot honour."""
    return RequestError(400, "unsupported_parameter", f"{param}: {why}", param)


def from_validation(error: RequestValidationError) -> RequestError:
    """Describe everything wrong with a body, one sentence each, without echoing the values sent."""
    found = [_sentence(e) for e in error.errors()]
    # a field with several allowed types fails once per type
    sentences = list(dict.fromkeys(text for _, text in found))
    return RequestError(400, "invalid_value", " ".join(sentences[:8]), found[0][0] if found else None)


def _sentence(error: Mapping[str, Any]) -> tuple[str | None, str]:
    # ("body", "messages", 0, "content", "str") → messages.0.content
    place = [str(part) for part in error["loc"][1:] if not _is_type(str(part))]
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


def _is_type(part: str) -> bool:
    """Return whether part of a location names a type of a union, such as `list[str]`, rather than a field."""
    return part in ("str", "int", "float", "bool", "dict", "TextPart") or "[" in part or "constrained" in part


FIELDS = yaml.safe_load(Path(__file__).with_name("request_fields.yaml").read_text(encoding="utf-8"))


def check_fields(extra: dict[str, Any] | None) -> list[str]:
    """Reject the first field that cannot be honoured; return the names of unknown fields."""
    unknown = []
    for name, value in (extra or {}).items():
        if name in FIELDS["ignored"]:
            continue
        if name in FIELDS["embeddings"]:
            raise unsupported(name, "is not supported: embeddings are not accepted from clients. Send text.")
        if name not in FIELDS["refused"]:
            unknown.append(name)
            continue
        field = FIELDS["refused"][name]
        if value is not None and value not in field["neutral"]:
            raise unsupported(name, f"is not supported: {field['why']}")
    return unknown
