"""Token ids as they come → pieces of text that will not be taken back: whole characters, nothing of a stop text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

_BROKEN = "\ufffd"  # what a tokenizer writes for a character whose bytes have not all come


@dataclass
class Pieces:
    """One growing text.

    Attributes:
        decode: Ids → text.
        stops: The text ends before the first of these.
        text: What has been given out so far.
        stopped: A stop text was found; nothing more comes.
    """

    decode: Callable[[Sequence[int]], str]
    stops: Sequence[str] = ()
    text: str = ""
    stopped: bool = field(default=False, init=False)
    _ids: int = field(default=0, init=False)

    def take(self, ids: Sequence[int], final: bool = False) -> str:
        """All ids so far → the text that is new and certain.

        Args:
            ids: From the first on.
            final: No more will come, so nothing is held back.
        """
        if self.stopped or (len(ids) == self._ids and not final):
            return ""
        self._ids = len(ids)
        whole = self.decode(ids)
        found = [at for stop in self.stops if (at := whole.find(stop)) >= 0]
        if found:
            self.stopped = True
            certain = min(found)
        else:
            certain = len(whole) if final else len(whole) - self._uncertain(whole)
        new = whole[len(self.text) : certain]
        self.text += new
        return new

    def _uncertain(self, text: str) -> int:
        """Characters at the end that may still change or become part of a stop text."""
        broken = len(text) - len(text.rstrip(_BROKEN))
        begun = (
            size for stop in self.stops for size in range(min(len(stop) - 1, len(text)), 0, -1) if text.endswith(stop[:size])
        )  # fmt: skip
        return max(broken, max(begun, default=0))
