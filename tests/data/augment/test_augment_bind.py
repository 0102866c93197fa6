"""The source of every operand in a question, and examples where it cannot be determined."""

from fractions import Fraction

import pytest
from cases import cases

from ruplar.data.augment import mentions, program
from ruplar.data.augment import template as binding
from ruplar.data.augment.bind import bind
from ruplar.data.augment.template import NotAugmentable
from ruplar.types import Example


def example(question, *steps, answer=None):
    chain = " ".join(f"<<{step}>>" for step in steps)
    return Example(question, steps, answer or steps[-1].rpartition("=")[2], "toy:1", chain)


def kinds(text):
    return [[m.text, m.kind] for m in mentions.find(text)]


@pytest.mark.parametrize(("text", "found"), cases(__file__, "mentions"))
def test_mentions_are_found_with_their_kind(text, found):
    # `4x6` gives the 4 alone: the 6 follows a letter
    assert kinds(text) == found


def test_words_imply_numbers():
    assert {7, 2, Fraction(1, 2)} <= mentions.implied("half a week")
    assert {100, Fraction(1, 100)} <= mentions.implied("20%")
    assert {2, 5, 3, Fraction(2, 5), Fraction(3, 5)} <= mentions.implied("2/5 of them")
    assert 60 in mentions.implied("an hour and a minute") and 60 not in mentions.implied("an hour")


def test_a_step_is_evaluated_and_written_with_other_numbers():
    step = program.parse("(16+4)*.25=5")
    assert step.literals == ("16", "4", ".25")
    # (20 + 8) * .5 = 14
    assert step.run([20, 8, Fraction(1, 2)]) == 14
    assert step.write(["20", "8", ".5"], "14") == "(20+8)*.5=14"
    assert step.run([1, 1, 1]) == 2 and program.parse("6/0=1").run([6, 0]) is None


@pytest.mark.parametrize("step", ["-3+4=1", "4(2)=8", "x+2=4", "3+4", "5=5=5", "(3+4=7", "3**2=9", "20%*5=1"])
def test_steps_beyond_plain_arithmetic_have_no_program(step):
    assert program.parse(step) is None


NUMBERS = [("3/4", ".50", ".75"), ("3/4", "0.5", "0.75"), (96, "144.00", "96.00"), (3, "2.5", "3")]
NUMBERS += [("7/2", "2.50", "3.50")]


@pytest.mark.parametrize(("value", "like", "text"), [*NUMBERS, ("1/3", "0.5", None)])
def test_numbers_are_written_in_the_format_of_another(value, like, text):
    assert program.write(Fraction(value) if isinstance(value, str) else value, like) == text


def test_operands_are_variables_results_or_constants():
    question = "Mia buys 12 boxes with 15 pens each. She uses 20% of them every week."
    bound = bind(example(question, "12*15=180", "180*.2=36", "36*7=252"))
    assert [v.value for v in bound.variables] == [12, 15, 20]
    first, second, third = bound.sources
    assert [s.variable for s in first] == [0, 1]
    assert (second[0].step, second[1].variable, second[1].conversion) == (0, 2, "%")
    assert (third[0].step, third[1].constant) == (1, 7)
    # 10 boxes of 20 pens, 30 %: 200, 60, 420
    assert bound.run([10, 20, 30]) == [200, 60, 420]


def test_a_number_equal_to_an_implied_one_is_frozen():
    bound = bind(
        example("He has 2 dogs, each eats twice as much as a cat, a cat eats 14 bones.", "14*2=28", "28*2=56")
    )
    assert [v.value for v in bound.variables] == [14]


def test_a_percentage_used_as_a_plain_number_is_frozen():
    # 40/10 is 10 % of 40, but 40/20 is not 20 % of it
    bound = bind(example("Adam has $40 and pays 10% tax. What is left?", "40/10=4", "40-4=36"))
    assert [v.value for v in bound.variables] == [40]


@pytest.mark.parametrize(("question", "steps", "reason"), cases(__file__, "left_out"))
def test_examples_that_cannot_be_augmented_have_a_reason(question, steps, reason):
    with pytest.raises(NotAugmentable, match=reason):
        bind(example(question, *steps))


@pytest.mark.parametrize(
    ("steps", "answer", "reason"),
    [
        (("31+45=76",), "75", binding.NOT_LAST),
        *((("31+45=76",), answer, binding.NOT_LAST) for answer in ("1/0", "½", "nan", "")),
        ((), "76", "no step"),
    ],
)
def test_examples_without_steps_or_with_another_answer_are_left_out(steps, answer, reason):
    with pytest.raises(NotAugmentable, match=reason):
        bind(Example("Tom has 31 and 45 cars.", steps, answer))


def test_an_equation_outside_of_steps_is_a_missing_step():
    prose = "An hour less 10 minutes and 0 more is 60 = 60. Then 60/5 = <<60/5=12>>12"
    with pytest.raises(NotAugmentable, match=binding.UNWRITTEN):
        bind(Example("Songs of 5 minutes in an hour and 30 minutes.", ("60/5=12",), "12", "toy:1", prose))
