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
    def json(self):
        return json.loads(self.out)
