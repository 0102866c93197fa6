"""What was tried and what went wrong: one row of the table in docs/reliability.md per attack."""

from __future__ import annotations

import signal
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ruplar.errors import UserError

LIMIT = 5.0
"""Seconds of CPU time that one case may take."""


class _TooLong(BaseException):
    pass


@dataclass
class Tally:
    """One attack: its cases and its failures."""

    attack: str
    wanted: str  # what must hold
    tried: int = 0
    refused: int = 0  # cases that ended in a named error
    failures: list[str] = field(default_factory=list)
    figures: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    slowest: float = 0.0

    def check(self, holds: bool, what: str) -> None:
        self.tried += 1
        if not holds:
            self.failures.append(what)

    def run(self, what: str, case: Callable[[], Any]) -> None:
        """Run one case: it succeeds or raises a UserError, within the limit."""
        self.tried += 1
        failed, began = len(self.failures), time.process_time()
        signal.signal(signal.SIGPROF, _stop)
        signal.setitimer(signal.ITIMER_PROF, LIMIT)
        try:
            case()
        except UserError as error:
            self.refused += 1
            if len(str(error)) > 5000:
                self.failures.append(f"{what}: the message has {len(str(error)):,} characters")
        except _TooLong:
            self.failures.append(f"{what}: took more than {LIMIT:g} s\n{traceback.format_exc()[-1500:]}")
        except BaseException:
            self.failures.append(f"{what}\n{traceback.format_exc()[-1500:]}")
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        took = time.process_time() - began
        self.slowest = max(self.slowest, took)
        if took > LIMIT and len(self.failures) == failed:  # the signal was swallowed on its way
            self.failures.append(f"{what}: took {took:.1f} s")

    def line(self) -> str:
        """Return the row of the table."""
        figures = dict(self.figures)
        if self.refused:
            figures["ended in a named error"] = f"{self.refused:,}"
        if self.slowest:
            figures["slowest"] = f"{self.slowest:.1f} s"
        notes = "; ".join(f"{name}: {value}" for name, value in figures.items())
        verdict = "holds" if not self.failures else f"**{len(self.failures)} failures**"
        return f"| {self.attack} | {self.tried:,} | {self.wanted} | {verdict} | {notes} |"


def _stop(*_: Any) -> None:
    raise _TooLong
