"""Answer texts → scores. Only the text after the thought is graded: a number in the reasoning is not an answer."""

from __future__ import annotations

from typing import Any

from ruplar.domains.base import Domain
from ruplar.errors import UserError
from ruplar.types import Score


def score(answer_text: str, marked: str, domain: Domain) -> Score:
    """Grade one answer; one that cannot be parsed is wrong, and `found` is None."""
    found = domain.extract(answer_text)
    return Score(found is not None and domain.same(found, marked), found)


def lenient(domain: Any) -> Domain:
    """Copy a domain with lenient grading switched on."""
    if "lenient" not in type(domain.config).model_fields:
        name = type(domain).__module__.rpartition(".")[2]
        raise UserError(f"lenient: the domain '{name}' has no lenient grading. Leave lenient out.")
    return type(domain)(domain.config.model_copy(update={"lenient": True}))
