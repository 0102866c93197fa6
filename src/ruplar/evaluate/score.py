"""Answer texts → scores; several answers to a question → their majority, and pass@k.

Only the text after the thought is graded: a number in the reasoning is not an answer.

majority   answers that the domain calls equal share a vote; ties go to the one given first
pass@k     1 - C(n - c, k) / C(n, k) for a question with c right of n answers: the probability that k of them, drawn without
           replacement, include a right one. Its mean over questions is an unbiased estimate.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ruplar.domains.base import Domain
from ruplar.errors import UserError
from ruplar.evaluate.record import Share
from ruplar.evaluate.stats import bootstrap_mean
from ruplar.types import Answer


def lenient(domain: Any) -> Domain:
    """Copy a domain with lenient grading switched on."""
    if "lenient" not in type(domain.config).model_fields:
        name = type(domain).__module__.rpartition(".")[2]
        raise UserError(f"lenient: the domain '{name}' has no lenient grading. Leave lenient out.")
    return type(domain)(domain.config.model_copy(update={"lenient": True}))


@dataclass(frozen=True)
class Vote:
    """The majority of several answers to one question."""

    answer: Answer  # the winner's text; its costs are the sums over all answers, with one shared prefill
    # each distinct parsed answer with its votes; most votes first, then in order of appearance
    counts: tuple[tuple[str, int], ...]
    unreadable: int  # number of answers that could not be parsed; they do not vote


def majority(answers: Sequence[Answer], domain: Domain) -> Vote:
    """Take the majority of one question's answers; where none can be parsed, the first answer."""
    groups: list[tuple[str, list[Answer]]] = []
    unreadable = 0
    for answer in answers:
        found = domain.extract(answer.text)
        if found is None:
            unreadable += 1
            continue
        group = next((members for text, members in groups if domain.same(found, text)), None)
        if group is None:
            groups.append((found, [answer]))
        else:
            group.append(answer)
    groups.sort(key=lambda group: -len(group[1]))  # stable: ties keep their order
    winner = groups[0][1][0] if groups else answers[0]
    whole = replace(
        winner,
        latents=(),
        latent_count=sum(a.latent_count for a in answers),
        answer_tokens=sum(a.answer_tokens for a in answers),
        forwards=1 + sum(a.forwards - 1 for a in answers),
        halted=all(a.halted for a in answers),
        ended=all(a.ended for a in answers),
    )
    return Vote(whole, tuple((text, len(members)) for text, members in groups), unreadable)


def pass_at_k(n: int, correct: int, k: int) -> float:
    """Probability that k of n answers, `correct` of them right, include a right one."""
    if not 0 <= correct <= n or not 1 <= k <= n:
        raise ValueError(f"pass@{k} of {correct} right among {n} answers")
    return 1 - math.comb(n - correct, k) / math.comb(n, k)


def passes(correct: Sequence[int], n: int) -> dict[int, Share]:
    """Estimate pass@k in percent for k = 1, 2, 4 … and n, from each question's number of right answers among n."""
    ks = sorted({k for k in (2**i for i in range(n.bit_length())) if k <= n} | {n})
    found = {}
    for k in ks:
        mean, low, high = bootstrap_mean([100 * pass_at_k(n, c, k) for c in correct])
        found[k] = Share(mean=mean, low=low, high=high)
    return found
