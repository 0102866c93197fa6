"""The result of a command."""

import json
from dataclasses import dataclass


@dataclass
class Said:
    """Exit status and output of a command."""

    code: int
    out: str
    err: str

    @property
    def words(self):
        """The output on one line, because line breaks depend on the length of paths."""
        return " ".join(self.out.split())

    @property
    def json(self):
        return json.loads(self.out)
