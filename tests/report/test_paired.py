import json
from pathlib import Path

import numpy as np
import pytest
from report_toys import record, write_run, write_study

from ruplar.errors import UserError
from ruplar.evaluate.record import STUDY, read_record, read_samples, write_record, write_samples
from ruplar.evaluate.stats import over_seeds
from ruplar.report.paired import difference, pairs
from ruplar.report.rows import collect, marks, shares
from ruplar.runs import other_samples


def test_a_row_that_asks_anothers_models_is_paired_with_it_by_seed():
    folder = Path(__file__).parents[2] / "results" / "losses"
    rows = [row for row in collect([folder]) if row.benchmark == "word-problems"]
    tests = {pair.method: pair.test for pair in pairs(rows, "w-o Problem-Thought")}
    assert {name for name, test in tests.items() if test == "t, seeds and questions, same models"} == {
        "feed the full distribution", "feed the halting mass", "argmax halting", "halting threshold 0.3",
    }  # fmt: skip


def test_a_mean_is_none_of_the_models_it_is_of(tmp_path):
    for label, mean in (("short", 0), ("mean", 2)):
        for seed, right in ((1, "1110"), (3, "1010")):
            write_run(tmp_path, label, seed, right, mean_of=[seed, seed + 1] if mean else [])
    about = {
        label: {"label": label, "set": [], "of": "mix", "mean": mean} for label, mean in (("short", 0), ("mean", 2))
    }
    (tmp_path / STUDY).write_text(json.dumps({"rows": about}), encoding="utf-8")
    [pair] = pairs(collect(tmp_path), "short")
    assert pair.test == "t, seeds and questions"


def test_rows_are_compared_with_the_best_or_with_one_named(tmp_path):
    rows = collect(write_study(tmp_path / "toy"))
    [pair] = pairs(rows)
    assert (pair.method, pair.against, pair.n, pair.difference) == ("bad", "good", 4, -50.0)
    assert pair.p == pair.holm == pytest.approx(0.0917, abs=5e-5)
    [turned] = pairs(rows, "bad")
    assert (turned.method, turned.against, turned.difference) == ("good", "bad", 50.0)
    with pytest.raises(UserError, match="unknown row 'god'. Did you mean 'good'"):
        pairs(rows, "god")


def test_of_equals_the_one_with_fewer_forwards_is_the_best(tmp_path):
    write_run(tmp_path, "slow", 1, "10", forwards=9)
    write_run(tmp_path, "quick", 1, "01", forwards=3)
    assert pairs(collect(tmp_path))[0].against == "quick"


def test_decodings_of_one_training_are_averaged_and_are_no_further_seeds(tmp_path):
    decodings = {"good": (("1110", "1100"), ("1100", "1010")), "bad": (("1000", "0000"), ("0100", "1000"))}
    for label, of_seeds in decodings.items():
        for seed, (first, second) in enumerate(of_seeds, start=1):
            home = write_run(tmp_path, label, seed, first)
            again = read_record(home).benchmarks[0].model_copy(update={"seed": 1, "correct": second.count("1")})
            write_record(read_record(home).with_benchmark(again), home)
            marked = zip(read_samples(home), second, strict=True)
            write_samples(
                [*read_samples(home), *({**row, "seed": 1, "correct": mark == "1"} for row, mark in marked)], home
            )
    good, bad = rows = collect(tmp_path)[::-1]
    # 3 and 2 of four, 2 and 2: as two seeds with 5/8 and 4/8
    assert (good.seeds, shares(good.runs)) == ((1, 2), [5 / 8, 4 / 8]) and len(good.runs) == 4
    assert (good.low, good.high) == pytest.approx(tuple(100 * x for x in over_seeds([5 / 8, 4 / 8], 4)[1]))
    assert list(marks(good.runs).values()) == [[1, 1], [1, 0.5], [0.5, 0.5], [0, 0]]
    [pair] = pairs(rows)
    averaged = [np.array(list(marks(row.runs).values())).T for row in (bad, good)]
    assert (pair.difference, pair.p, pair.test) == (-37.5, difference(*averaged).p, "t, seeds and questions")
    # one training each: the shares are no marks of McNemar's test
    [pair] = pairs(collect([tmp_path / "good-seed1", tmp_path / "bad-seed1"]))
    assert (pair.difference, pair.test) == (-50.0, "t, questions")


def test_missing_samples_or_other_questions_are_told(tmp_path):
    write_run(tmp_path, "a", 1, "1100")
    write_record(record(1, 3, "b", 4, study="toy"), tmp_path / "b-seed1")
    with pytest.raises(UserError, match="has 0 of the 4 answers"):
        pairs(collect(tmp_path))
    write_run(tmp_path, "b", 1, "11000")
    with pytest.raises(UserError, match="different questions"):
        pairs(collect(tmp_path))


def test_grading_a_run_leniently_too_leaves_its_strict_marks_as_they_were(tmp_path):
    home = write_run(tmp_path, "good", 1, "1000")
    fresh = [{**row, "decoding": "greedy", "lenient": True, "correct": True} for row in read_samples(home)]
    write_samples([*other_samples(home, fresh), *fresh], home)  # as `ruplar evaluate --lenient` does
    kind = read_record(home).benchmarks[0].model_copy(update={"lenient": True, "correct": 4})
    write_record(read_record(home).with_benchmark(kind), home)
    right = {row.method: sum(right for [right] in marks(row.runs).values()) for row in collect(tmp_path)}
    assert right == {"good": 1, "good (lenient grading)": 4}
