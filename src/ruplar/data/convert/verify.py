"""Chain → the same in plain form, verified, or the reason to reject it."""

from typing import Any

from ruplar.domains.base import Domain, ends_as_marked, how_it_ends
from ruplar.types import Example

NO_STEP = "no step"
UNCHECKED = "a step cannot be checked"
WRONG_STEP = "a step is wrong"
WRONG_END = "the last result is not the marked answer"
MISMATCH = "the chain does not match its question"


class Rejected(Exception):
    """A rejected row: `reason` is the kind of fault, `detail` says what is wrong with this row."""

    def __init__(self, reason: str, detail: str):
        super().__init__(f"{reason}: {detail}")
        self.reason, self.detail = reason, detail


def verify(chain: str, question: str, answer: str, domain: Domain) -> str:
    """Check a chain and return it in plain form: only its `<<…>>` if it has any; raise `Rejected` if it does not hold."""
    steps = domain.split(chain)
    if not steps:
        raise Rejected(NO_STEP, f"none in '{_short(chain)}'")
    for number, step in enumerate(steps, start=1):
        if wrong := domain.check(step):
            raise Rejected(WRONG_STEP, f"step {number}: {wrong}")
        if why := domain.unchecked(step):
            raise Rejected(UNCHECKED, f"step {number}, '{_short(step)}': {why}")
        if not domain.result(step):
            raise Rejected(UNCHECKED, f"step {number}, '{_short(step)}', has no result")
    plain = " ".join(f"<<{step}>>" for step in steps) if "<<" in chain else chain.strip()
    example = Example(question, tuple(steps), answer, chain=plain)
    if not ends_as_marked(domain, example):
        raise Rejected(WRONG_END, how_it_ends(domain, example))
    check_chain: Any = getattr(domain, "check_chain", None)
    for fault in check_chain(example) if check_chain else ():
        raise Rejected(MISMATCH, fault)
    return plain


def _short(text: str, width: int = 80) -> str:
    text = " ".join(text.split())
    return text if len(text) <= width else text[: width - 3] + "..."
