"""One line of a config class → default, help, range check, docs row: the base of every `Config` in the package."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Settings(BaseModel):
    """Frozen settings; an unknown name or a value out of range is refused when the recipe is read."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)
