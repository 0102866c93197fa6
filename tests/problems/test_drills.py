"""Drills: every one re-executes and ends in its answer."""

import re

from ruplar import plugins
from ruplar.problems.drills import generate

DOMAIN = plugins.make("domains", "arithmetic")


def test_every_drill_re_executes_and_ends_in_its_answer():
    for e in generate(1500, 1):
        assert all(DOMAIN.check(s) is None and DOMAIN.unchecked(s) is None for s in e.steps), e
        assert e.steps[-1].endswith(f"={e.answer}") and tuple(DOMAIN.split(e.chain)) == e.steps
        assert not re.search(r"[{}]|  |=-", e.question + e.chain) and len(e.steps) <= 2
