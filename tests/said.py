"""What a command said, for tests that type one."""

from __future__ import annotations

import json
from dataclasses import dataclass


@dataclass
class Said:
    """What a command said, and how it ended."""

    code: int
    out: str
    err: str

    @property
    def words(self):
        """What it said in one line: where a line is broken depends on how long the paths in it are."""
        return " ".join(self.out.split())

    @property
    def json(self):
        return json.loads(self.out)
