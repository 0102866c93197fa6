"""Operands of sums and products in one order: the last result first, other results, then as the question is read."""

from collections import Counter
from dataclasses import replace

import pytest

from ruplar.data.augment import program
from ruplar.data.canonical_operands import canonical_operands
from ruplar.problems.word_problems import generate
from ruplar.types import Example

APPLES = "Diane bought twenty more apples than Cecile. If Cecile bought 15 apples, how many did they buy altogether?"


@pytest.mark.parametrize(
    ("question", "steps", "ordered"),
    [
        (APPLES, ("15+20=35", "15+35=50"), ("20+15=35", "35+15=50")),
        ("Tom has 3 boxes of 12 pens.", ("12*3=36",), ("3*12=36",)),
        ("Tom has 3 boxes of 12 pens.", ("3*12=36",), ("3*12=36",)),
        # what the step before came to, then other results in the order of their steps
        ("2 pens at $7, 3 caps at $5.", ("2*7=14", "3*5=15", "14+15=29"), ("2*7=14", "3*5=15", "15+14=29")),
        (
            "2 at 7, 3 at 5, 4 at 9.",
            ("2*7=14", "3*5=15", "4*9=36", "15+36+14=65"),
            ("2*7=14", "3*5=15", "4*9=36", "36+14+15=65"),
        ),
        # a number from nowhere stands last; a percentage gives its share
        ("Ann works 8 hours a day.", ("7*8=56",), ("8*7=56",)),
        ("A $60 coat is 25% off.", (".25*60=15", "60-15=45"), ("60*.25=15", "60-15=45")),
        ("She pays 25% of $60.", ("60*0.25=15",), ("0.25*60=15",)),
        # more than two, and in the hand they were written in
        ("1.20, then 4 and 3.", ("3+4+1.20=8.20",), ("1.20+4+3=8.20",)),
        # what does not commute stays, however it is written
        ("10 apples, 4 eaten.", ("14-4-10=0", "8/2*3=12", "1+2*3=7"), ("14-4-10=0", "8/2*3=12", "1+2*3=7")),
        # 20 is what the first step comes to, and the question has one too
        ("2 trees with 10 each, 3 with 20.", ("2*10=20", "3*20=60"), ("2*10=20", "3*20=60")),
        ("Three cats of 4.", ("x*3=12", "3 cats"), ("x*3=12", "3 cats")),
        ("Nothing to work out.", (), ()),
        # what the question says comes before what a percentage of it may be written as
        ("She saves 25%. She has 10 boxes with 75 red.", ("75*10=750",), ("10*75=750",)),
        ("4 pens, 50 cents each.", (".50*4=2",), ("4*.50=2",)),
        ("50 cents each, 4 pens.", ("4*0.5=2",), ("0.5*4=2",)),
        ("He pays 2.5% of 400, later 150% of that.", ("400*0.025=10", "10*1.5=15"), ("0.025*400=10", "10*1.5=15")),
        # the 2 of 1/2 is no number by itself
        ("1/2 of 10 apples and 2 pears.", ("2+10=12",), ("10+2=12",)),
        # a result counts even where its step cannot be carried out again; what moves loses its spaces
        ("Ann has 5 left.", ("9 cats - 2 = 7", "5 + 7 = 12"), ("9 cats - 2 = 7", "7+5=12")),
    ],
)
def test_results_come_first_the_last_before_all_then_the_numbers_as_the_question_has_them(question, steps, ordered):
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
