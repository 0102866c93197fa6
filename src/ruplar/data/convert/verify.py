"""Chain, question and marked answer → the chain in its plain form, or the reason why it is not to be trusted."""

from __future__ import annotations

from typing import Any

from ruplar.domains.base import Domain, ends_as_marked, how_it_ends
from ruplar.types import Example

NO_STEP, UNCHECKED, WRONG_STEP, WRONG_END, MISFIT = (
    "no step",
    "a step cannot be carried out again",
    "a step does not re-execute",
    "does not come to the marked answer",
    "does not fit its question",
)
"""Why a chain is set aside."""


class Rejected(Exception):
    """A row that is set aside: `reason` is one of a few, `detail` says what it is in this row."""

    def __init__(self, reason: str, detail: str):
        super().__init__(f"{reason}: {detail}")
        self.reason, self.detail = reason, detail


def verify(chain: str, question: str, answer: str, domain: Domain) -> str:
    """The chain, its steps in `<<…>>` where it was written so, once it has been parsed and carried out again.

    Raises:
        Rejected: It has no step, a step is wrong or cannot be judged, it does not end in the marked answer, or, where the
            domain can tell (`check_chain`), it does not fit its question.
    """
    steps = domain.split(chain)
    if not steps:
        raise Rejected(NO_STEP, f"the domain finds none in '{_short(chain)}'")
    for number, step in enumerate(steps, start=1):
        if wrong := domain.check(step):
            raise Rejected(WRONG_STEP, f"step {number}: {wrong}")
        if why := domain.unchecked(step):
            raise Rejected(UNCHECKED, f"step {number}, '{_short(step)}': {why}")
        if not domain.result(step):
            raise Rejected(UNCHECKED, f"step {number}, '{_short(step)}', states no result")
    plain = " ".join(f"<<{step}>>" for step in steps) if "<<" in chain else chain.strip()
    example = Example(question, tuple(steps), answer, chain=plain)
    if not ends_as_marked(domain, example):
        raise Rejected(WRONG_END, how_it_ends(domain, example))
    whole: Any = getattr(domain, "check_chain", None)
    for fault in whole(example) if whole else ():
        raise Rejected(MISFIT, fault)
    return plain


def _short(text: str, width: int = 80) -> str:
    text = " ".join(text.split())
    return text if len(text) <= width else text[: width - 3] + "..."
