"""Operands of sums and products in one order: the last result first, other results, then as the question is read."""

from collections import Counter
from dataclasses import replace

import pytest
from cases import cases

from ruplar.data.augment import program
from ruplar.data.canonical_operands import canonical_operands
from ruplar.problems.word_problems import generate
from ruplar.types import Example


@pytest.mark.parametrize(("question", "steps", "ordered"), cases(__file__, "operands"))
def test_results_come_first_the_last_before_all_then_the_numbers_as_the_question_has_them(question, steps, ordered):
    steps, ordered = tuple(steps), tuple(ordered)
    example = Example(question, steps, "1", "here:1", "as it was written")
    found = canonical_operands(example)
    assert found.steps == ordered
    assert found == (example if ordered == steps else replace(example, steps=ordered, chain=found.chain))
    if ordered != steps:
        assert found.chain == " ".join(f"<<{step}>>" for step in ordered)


def test_every_step_still_comes_to_what_it_came_to_and_nothing_moves_twice():
    moved = 0
    for example in generate(300, seed=11):
        found = canonical_operands(example)
        moved += found is not example
        assert canonical_operands(found) is found
        assert (found.question, found.answer, found.source) == (example.question, example.answer, example.source)
        for old, new in zip(example.steps, found.steps, strict=True):
            before, after = program.parse(old), program.parse(new)
            assert Counter(before.literals) == Counter(after.literals) and before.result == after.result
            assert after.run([program.value_of(literal) for literal in after.literals]) == program.value_of(
                new.partition("=")[2]
            )
    assert 30 < moved < 200
