from __future__ import annotations

import pytest

from ruplar import plugins
from ruplar.evaluate.score import lenient, score
from ruplar.types import Score


@pytest.fixture
def arithmetic():
    return plugins.make("domains", "arithmetic")


def test_the_answer_in_the_box_is_compared_as_a_number(arithmetic):
    assert score("\\boxed{1,200.0}", "1200", arithmetic) == Score(True, "1,200.0")
    assert score("\\boxed{12}", "1200", arithmetic) == Score(False, "12")


def test_what_cannot_be_read_is_wrong_and_found_is_none(arithmetic):
    assert score("about a dozen", "12", arithmetic) == Score(False, None)
    assert score("\\boxed{12", "12", arithmetic) == Score(False, None)
    assert score("", "12", arithmetic) == Score(False, None)


def test_lenient_grading_is_another_domain_and_leaves_the_first_as_it_was(arithmetic):
    assert score("\\boxed{0.5}", "50", arithmetic).correct is False
    assert score("\\boxed{0.5}", "50", lenient(arithmetic)).correct is True
    assert score("\\boxed{0.5}", "50", arithmetic).correct is False
