"""Several answers to a question → what most of them say, and how often one of k of them is right.

majority   answers that are the same to the domain are one vote each; ties go to the one given first
pass@k     1 - C(n - c, k) / C(n, k) of a question with c right of n answers: the chance that k of them, drawn without
           putting back, hold a right one. Its mean over questions is what k fresh samples would give, without bias.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ruplar.domains.base import Domain
from ruplar.evaluate.record import Share
from ruplar.evaluate.score import score
from ruplar.evaluate.stats import bootstrap_mean
from ruplar.types import Answer, Score


@dataclass(frozen=True)
class Vote:
    """What several answers to one question come to.

    Attributes:
        answer: The winner's text; costs are those of all answers together, their common prefill counted once.
        tally: Each different answer that could be read, with its votes; most votes first, then in order of appearance.
        unreadable: Answers nothing could be read from; they do not vote.
    """

    answer: Answer
    tally: tuple[tuple[str, int], ...]
    unreadable: int


def majority(answers: Sequence[Answer], domain: Domain) -> Vote:
    """The vote of one question's answers; where none can be read, the first answer stands as it is.

    Args:
        answers: At least one.
        domain: Says what an answer is, and when two are the same.
    """
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
    groups.sort(key=lambda group: -len(group[1]))  # stable: of equals the first stays first
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
    """Chance that k of n answers, `correct` of them right, hold a right one."""
    if not 0 <= correct <= n or not 1 <= k <= n:
        raise ValueError(f"pass@{k} of {correct} right among {n} answers")
    return 1 - math.comb(n - correct, k) / math.comb(n, k)


def passes(correct: Sequence[int], n: int) -> dict[int, Share]:
    """Right answers of each question, among n → pass@k for k = 1, 2, 4 .. and n, in percent, intervals over questions."""
    ks = sorted({k for k in (2**i for i in range(n.bit_length())) if k <= n} | {n})
    found = {}
    for k in ks:
        mean, low, high = bootstrap_mean([100 * pass_at_k(n, c, k) for c in correct])
        found[k] = Share(mean=mean, low=low, high=high)
    return found


def grade(drawn: Sequence[Sequence[Answer]], marked: Sequence[str], domain: Domain) -> list[list[Score]]:
    """Every answer to every question, graded by itself."""
    return [[score(a.text, right, domain) for a in answers] for answers, right in zip(drawn, marked, strict=True)]


def voted(vote: Vote, answers: Sequence[Answer], graded: Sequence[Score]) -> dict[str, Any]:
    """What a row of samples.jsonl.gz says besides: the votes, and each answer for itself."""
    return {
        "votes": [list(one) for one in vote.tally],
        "answers": [
            {"text": a.text, "found": s.found, "correct": s.correct, "latent_count": a.latent_count}
            for a, s in zip(answers, graded, strict=True)
        ],
    }
