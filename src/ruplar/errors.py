"""Errors that the user can fix: what is wrong, the value, where it came from, what to do.

The command line prints a `UserError` without a traceback. Problems are collected and reported together.
"""

import difflib
import re
from collections.abc import Iterable
from importlib import metadata

_LONG = re.compile(r"(\S{100})\S{300,}(\S{100})")
"""A value without a space that is too long to be shown whole."""
_MANY = 12
"""Above this many known names, a message lists only the closest ones."""


class UserError(Exception):
    """One or more problems that the user can fix.

    Args:
        *problems: Full sentences that name the place, the value and the fix.
        where: Where they were found, e.g. a file name; shown once, above them.
    """

    def __init__(self, *problems: str, where: str = ""):
        self.problems = [_LONG.sub(r"\1…\2", problem) for problem in problems]
        self.where = where
        super().__init__(str(self))

    def __str__(self) -> str:
        if len(self.problems) == 1 and not self.where:
            return self.problems[0]
        noun = "problem" if len(self.problems) == 1 else "problems"
        head = f"{len(self.problems)} {noun}" + (f" in {self.where}" if self.where else "")
        return "\n".join([head, *(f"  {p}" for p in self.problems)])


class TrainingStopped(UserError):
    """Training was stopped by a guard; the message names the cause (NaN, collapse) and what to try."""


class Interrupted(UserError):
    """Ctrl-C; the message says what is stored and how to resume."""


def unknown(kind: str, name: str, known: Iterable[str]) -> str:
    """Say that a name is unknown, with the closest known ones and, unless there are many, all of them.

    `unknown prior 'mixtur'. Did you mean 'mixture'? Known: gumbel, mixture, temperature.`
    """
    known = sorted(set(known))
    close = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    family = [one for one in known if one.startswith(f"{name}-")]
    hint = f" Did you mean '{close[0]}'?" if close else ""
    hint += f" Also similar: {', '.join(close[1:])}." if close[1:] else ""
    if len(family) > 1:  # `gsm8k`
        hint = f" Did you mean one of {', '.join(family)}?"
    listed = f" Known: {', '.join(known) or 'none'}." if not hint or len(known) <= _MANY else ""
    return f"unknown {kind} '{name}'.{hint}{listed}"


def install_extra(extra: str) -> str:
    """Say how to install the packages of an optional dependency group, in a clone and elsewhere.

    The packages are named one by one: ruplar itself may not be on the index that pip asks.
    """
    clone = f"in a clone, pip install -e '.[{extra}]'"
    try:
        declared = metadata.requires("ruplar") or []
    except metadata.PackageNotFoundError:  # run from the source folder, without an installation
        return f"Install the extra '{extra}': {clone}."
    mark = re.compile(rf"""extra == ["']{extra}["']""")
    packages = [re.split(r"[\s;<>=~!]", line)[0] for line in declared if mark.search(line)]
    return f"Install the extra '{extra}': {clone}; elsewhere, pip install {' '.join(packages)}."
