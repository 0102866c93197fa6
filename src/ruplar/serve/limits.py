"""What a server may be asked for: every bound in one place, each checked before anything is allocated for a request."""

from __future__ import annotations

from pydantic import Field

from ruplar.settings import Settings

CHARACTERS_A_TOKEN = 32
"""A text longer than this many times the prompt's tokens is refused unread: reading it is what costs."""


class Limits(Settings):
    """Bounds of a server."""

    slots: int = Field(32, ge=1, description="Questions in flight; the others wait.")
    max_queue: int = Field(512, ge=1, description="Questions waiting; one more is refused with 429.")
    max_prompt: int = Field(384, ge=1, description="Tokens of a question with its frame.")
    max_tokens: int = Field(256, ge=1, description="Most answer tokens a request may ask for.")
    max_n: int = Field(16, ge=1, description="Most answers of a request, over all its prompts.")
    max_body: int = Field(262_144, ge=64, description="Bytes of a body; a larger one is refused with 413.")
    timeout: float = Field(60.0, gt=0, description="Seconds until a request is given up with 504.")
    keep_alive: int = Field(15, ge=1, description="Seconds an idle connection is kept.")

    @property
    def characters(self) -> int:
        """Most characters of a question."""
        return self.max_prompt * CHARACTERS_A_TOKEN
