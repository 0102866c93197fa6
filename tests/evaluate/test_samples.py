"""Samples hold what the figures need; outcomes hold what paired tests need; both share one copy of the questions."""

import json

import pytest
from scripts import script

from ruplar.errors import UserError
from ruplar.evaluate.samples import OUTCOMES, SAMPLES, read_outcomes, read_samples, sample, write_samples
from ruplar.types import Answer, Example, Latent, Score


def row(probs):
    tokens = tuple(f"t{i}" for i in range(len(probs)))
    answer = Answer("7", latents=(Latent(tokens, tuple(probs), 0.123456, 1.23e-7),), latent_count=1)
    example = Example("How many?", ("3+4=7",), "7", "toy:1")
    return sample("toy", 0, 0, example, answer, Score(True, "7"))


def rows(marks="110", benchmark="b", **changes):
    """Samples of one result; "110": right, right, wrong."""
    return [
        {"benchmark": benchmark, "seed": 0, "index": i, "source": f"a:{i}", "question": f"{i} × 4?", "marked": "12",
         "steps": [], "correct": mark == "1", **changes}
        for i, mark in enumerate(marks)
    ]  # fmt: skip


def test_a_sample_has_the_reference_steps_and_rounded_latents():
    assert row([1.0])["steps"] == ["3+4=7"]
    [latent] = row([0.123456])["latents"]
    assert (latent["probs"], latent["entropy"], latent["halt"]) == ([0.1235], 0.1235, 0.0)


def test_tokens_that_round_to_zero_are_dropped_after_the_tenth():
    [latent] = row([0.9, 0.1] + [1e-6] * 18)["latents"]
    assert list(latent["probs"]) == [0.9, 0.1] + [0.0] * 8 and len(latent["tokens"]) == 10
    [spread] = row([0.05] * 20)["latents"]
    assert len(spread["tokens"]) == len(spread["probs"]) == 20


def test_samples_come_back_and_equal_rows_give_equal_bytes(tmp_path):
    first, second = write_samples(rows(), tmp_path / "a"), write_samples(iter(rows()), tmp_path / "b")
    assert read_samples(tmp_path / "a") == rows()
    assert first.read_bytes() == second.read_bytes()


def test_runs_of_all_studies_share_the_questions_of_a_benchmark(tmp_path):
    both = [*rows(), *rows("01", "c")]
    for run in ("study/one", "study/two", "other/one"):
        write_samples(both, tmp_path / run, share=True)
        assert read_samples(tmp_path / run) == both
    assert len(list((tmp_path / "questions").iterdir())) == 2
    write_samples(rows(question="another?"), tmp_path / "study" / "three", share=True)
    assert read_samples(tmp_path / "study" / "one") == both and len(list((tmp_path / "questions").iterdir())) == 3


def test_missing_questions_are_named(tmp_path):
    write_samples(rows(), tmp_path / "study" / "one", share=True)
    [shared] = (tmp_path / "questions").iterdir()
    shared.unlink()
    with pytest.raises(UserError, match=rf"questions are in .*{shared.name}, which is missing"):
        read_samples(tmp_path / "study" / "one")


def test_two_results_of_one_name_with_different_questions_keep_their_own(tmp_path):
    both = [*rows("1", decoding="greedy"), *rows("1", decoding="T=1", question="2 × 6?")]
    write_samples(both, tmp_path / "study" / "one", share=True)
    assert read_samples(tmp_path / "study" / "one") == both


@pytest.mark.parametrize("share", [False, True])
def test_outcomes_say_the_same_as_the_samples_they_replace(tmp_path, share):
    run = tmp_path / "study" / "one"
    both = [*rows("110"), *rows("011", decoding="greedy", lenient=True), *rows("10", "c", seed=3)]
    write_samples(both, run, share=share)
    before, compact = read_outcomes(run), script("compact_results").compact
    assert before["b", 0, False, ""] == {(0, "0 × 4?"): True, (1, "1 × 4?"): True, (2, "2 × 4?"): False}
    assert compact(run) and not (run / SAMPLES).exists()
    assert read_outcomes(run) == before
    assert set(before) == {("b", 0, False, ""), ("b", 0, True, "greedy"), ("c", 3, False, "")}
    assert [result["right"] for result in json.loads((run / OUTCOMES).read_text())] == ["110", "011", "10"]
    assert not compact(run), "there is nothing left to replace"


def test_a_run_without_answers_has_no_outcomes_and_a_damaged_file_is_named(tmp_path):
    assert read_outcomes(tmp_path) == {}
    (tmp_path / OUTCOMES).write_text('[{"right": "1"}]')
    with pytest.raises(UserError, match=r"outcomes.json: not a file of outcomes"):
        read_outcomes(tmp_path)
