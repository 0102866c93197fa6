"""Answer text and marked answer → `Score`: right or wrong, and what was read.

Only the text after the thought is read, never the thought itself: a number that stands in the reasoning is no answer.
"""

from __future__ import annotations

from typing import Any

from ruplar.domains.base import Domain
from ruplar.errors import UserError
from ruplar.types import Score


def score(answer_text: str, marked: str, domain: Domain) -> Score:
    """The score of one answer; one that cannot be read is wrong, and `found` is None.

    Args:
        answer_text: What the model said after its thought.
        marked: The right answer, as the data marks it.
        domain: Says how an answer is read and when two are the same.
    """
    found = domain.extract(answer_text)
    return Score(found is not None and domain.same(found, marked), found)


def lenient(domain: Any) -> Domain:
    """The domain with its lenient grading switched on.

    Raises:
        UserError: It has none.
    """
    if "lenient" not in type(domain.config).model_fields:
        name = type(domain).__module__.rpartition(".")[2]
        raise UserError(f"lenient: the domain '{name}' has one way of grading only. Leave lenient out.")
    return type(domain)(domain.config.model_copy(update={"lenient": True}))
