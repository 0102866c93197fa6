"""Majority and pass@k by hand, and a benchmark asked several times."""

from itertools import combinations

import pytest

from ruplar import plugins
from ruplar.engine.sampling import Decoding
from ruplar.evaluate.benchmark import evaluate
from ruplar.evaluate.score import majority, pass_at_k, passes
from ruplar.types import Answer

DOMAIN = plugins.make("domains", "arithmetic")
NOISY = Decoding(max_answer_tokens=3, noise=1.0)


def answers(*texts: str) -> list[Answer]:
    return [Answer(text, latent_count=2, answer_tokens=3, forwards=6) for text in texts]


def test_the_majority_counts_equal_answers_however_they_are_written():
    vote = majority(answers("7", "12", "12.0", "1,000", "12"), DOMAIN)
    assert vote.answer.text == "12" and vote.counts == (("12", 3), ("7", 1), ("1,000", 1)) and vote.unreadable == 0


def test_a_tie_goes_to_the_answer_given_first_and_the_unreadable_do_not_vote():
    vote = majority(answers("no idea", "8", "9", "9", "8", "none"), DOMAIN)
    assert vote.answer.text == "8" and vote.counts == (("8", 2), ("9", 2)) and vote.unreadable == 2
    nothing = majority(answers("no idea", "none"), DOMAIN)
    assert nothing.answer.text == "no idea" and nothing.counts == ()


def test_a_vote_costs_what_all_its_answers_cost_with_one_prefill():
    vote = majority(answers("1", "2", "2"), DOMAIN)
    # 6 forwards each, one of them the prefill all three share: 1 + 3 * 5
    assert (vote.answer.latent_count, vote.answer.answer_tokens, vote.answer.forwards) == (6, 9, 16)


@pytest.mark.parametrize(("n", "correct", "k"), [(4, 1, 1), (4, 1, 2), (5, 2, 3), (6, 0, 4), (6, 6, 1), (5, 4, 2)])
def test_pass_at_k_is_the_share_of_draws_that_hold_a_right_answer(n, correct, k):
    draws = list(combinations([True] * correct + [False] * (n - correct), k))
    assert pass_at_k(n, correct, k) == pytest.approx(sum(any(draw) for draw in draws) / len(draws))


def test_pass_at_k_is_told_for_powers_of_two_and_all():
    found = passes([0, 3, 6], 6)
    # pass@1 is the share of right answers: 9 of 18; pass@6 the share of questions with any: 2 of 3
    assert list(found) == [1, 2, 4, 6]
    assert (found[1].mean, found[6].mean) == (pytest.approx(50), pytest.approx(200 / 3))
    assert found[1].low <= 50 <= found[1].high
    with pytest.raises(ValueError, match="pass@3"):
        pass_at_k(2, 1, 3)


def test_samples_come_in_the_order_of_questions_and_more_of_them_add_to_the_first(reasoner, questions):
    three = reasoner.sample(questions, 3, decoding=NOISY, batch_size=4)
    five = reasoner.sample(questions, 5, decoding=NOISY, batch_size=64)
    assert [len(some) for some in three] == [3] * 7
    assert [[a.text for a in some] for some in three] == [[a.text for a in some[:3]] for some in five]
    assert len({a.text for some in five for a in some}) > 2
    reasoner.engine = "reference"
    plain = reasoner.sample(questions, 3, decoding=NOISY, batch_size=4)
    assert [[(a.text, a.latent_count) for a in some] for some in plain] == [
        [(a.text, a.latent_count) for a in some] for some in three
    ]


def test_readable_latents_of_a_noised_thought_are_what_was_fed(reasoner, questions):
    [[one, two]] = reasoner.sample(
        questions[1], 2, decoding=Decoding(max_answer_tokens=3, noise=2.0), return_latents=True
    )
    assert one.latents and two.latents and one.latents[0].tokens != two.latents[0].tokens
    assert one.latents[0].halt == pytest.approx(two.latents[0].halt), "the halt is not noised"


def test_a_benchmark_asked_several_times_grades_the_majority_and_records_pass_at_k(
    reasoner, questions, write_questions
):
    drawn = reasoner.sample(questions, 4, decoding=NOISY)
    voted = [majority(some, DOMAIN) for some in drawn]
    marked = ["-1" if i in (1, 3) else vote.answer.text for i, vote in enumerate(voted)]
    file = write_questions([{"question": q, "answer": a} for q, a in zip(questions, marked, strict=True)])
    found = evaluate(reasoner, [str(file)], samples=4, decoding=NOISY, batch_size=8)
    [result] = found.results
    assert (result.n, result.correct, result.samples) == (7, 5, 4)
    assert result.decoding == "vote of 4 noise=1 max-answer-tokens=3"
    right = [sum(a.text == m for a in some) for some, m in zip(drawn, marked, strict=True)]
    assert result.pass_at[1].mean == pytest.approx(100 * sum(right) / 28)
    assert result.pass_at[4].mean == pytest.approx(100 * sum(r > 0 for r in right) / 7)
    assert set(result.pass_at) == {1, 2, 4}
    assert result.latents == pytest.approx(sum(a.latent_count for some in drawn for a in some) / 7)
    assert result.forwards == pytest.approx(sum(vote.answer.forwards for vote in voted) / 7)
    row = found.samples[0]
    assert row["decoding"] == result.decoding and len(row["answers"]) == 4
    assert row["votes"] == [list(one) for one in voted[0].counts] and row["found"] == voted[0].counts[0][0]
    again = evaluate(reasoner, [str(file)], samples=4, decoding=NOISY, seeds=(0, 1)).results
    assert [r.seed for r in again] == [0, 1] and again[0].correct == 5
