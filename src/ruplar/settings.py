"""The base class of every `Config`: each field defines its default, range and help text in one place."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Settings(BaseModel):
    """Frozen settings; an unknown name or a value out of range is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)
