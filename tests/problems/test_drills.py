"""Drills: every one re-executes, and operators and sizes follow the steps of GSM8K."""

import re
from collections import Counter

import pytest

from ruplar import plugins
from ruplar.problems.drills import SIGNS, generate

DOMAIN = plugins.make("domains", "arithmetic")


def test_every_drill_re_executes_and_ends_in_its_answer():
    for e in generate(1500, 1):
        assert all(DOMAIN.check(s) is None and DOMAIN.unchecked(s) is None for s in e.steps), e
        assert e.steps[-1].endswith(f"={e.answer}") and tuple(DOMAIN.split(e.chain)) == e.steps
        assert not re.search(r"[{}]|  |=-", e.question + e.chain) and len(e.steps) <= 2


def test_operators_and_digits_follow_the_measured_steps():
    signs, digits = Counter(), Counter()
    for e in generate(6000, 5, steps=(1, 1)):
        if m := re.fullmatch(r"(\d+)([-+*/])(\d+)=.*", e.steps[0]):
            signs[m[2]] += 1
            digits[m[2], len(m[1]), len(m[3])] += 1
    total = sum(signs.values())
    for sign, steps in SIGNS.items():
        # 3 hundredths for the parts (84/4) that are drawn beside them, four standard errors of 4,500: 0.030
        assert signs[sign] / total == pytest.approx(steps / sum(SIGNS.values()), abs=0.06)
    assert digits["*", 1, 1] > digits["*", 2, 1] > digits["*", 2, 2] > digits["*", 3, 2]
    assert digits["+", 2, 2] > digits["+", 3, 3] > digits["+", 4, 4] > 0
