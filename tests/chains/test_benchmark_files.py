"""The real files: every row loads, and what is known of them holds."""

import pytest

from ruplar.chains.read import SOURCES, iterate, overlap, read
from ruplar.domains.arithmetic import Config, Domain
from ruplar.errors import UserError

DOMAIN = Domain(Config())


@pytest.mark.parametrize(
    ("name", "rows", "with_steps"),
    [
        ("gsm8k-train", 7473, 7378),  # 95 have none
        ("gsm8k-aug-valid", 500, 494),  # 6
        ("gsm8k-aug", 1319, 1301),  # 18
        ("gsm-hard", 1319, 0),
        ("svamp", 1000, 0),
        ("multiarith", 600, 0),
        ("date-understanding-train", 295, 295),
        ("date-understanding", 74, 74),
        ("prosqa-valid", 300, 300),
    ],
)
def test_every_benchmark_file_loads_with_all_its_rows(shared_data, name, rows, with_steps):
    reading = read(name, DOMAIN, need_steps=False, data_dir=shared_data)
    assert (reading.rows, len(reading.examples), reading.left_out) == (rows, rows, {})
    assert sum(bool(e.steps) for e in reading.examples) == with_steps
    assert all(DOMAIN.same(e.answer, e.answer) for e in reading.examples)


def test_multiarith_repeats_twenty_questions_and_an_evaluation_keeps_them(shared_data):
    reading = read("multiarith", DOMAIN, need_steps=False, data_dir=shared_data)
    assert (len(reading.examples), len(reading.repeats)) == (600, 20)


def test_gsm8k_rows_without_a_step_are_refused_for_training_unless_skipped(shared_data):
    with pytest.raises(UserError, match=r"95 of 7,473 rows have no step \(first: gsm8k-train.jsonl:30 "):
        read("gsm8k-train", DOMAIN, data_dir=shared_data)
    reading = read("gsm8k-train", DOMAIN, skip_bad=True, data_dir=shared_data)
    assert len(reading.examples) == 7378
    assert {r: len(p) for r, p in reading.left_out.items()} == {"no step": 95}


def test_the_validation_questions_all_stand_in_gsm8k_train_and_are_taken_out(shared_data):
    train = read("gsm8k-train", DOMAIN, need_steps=False, data_dir=shared_data).examples
    valid = read("gsm8k-aug-valid", DOMAIN, need_steps=False, data_dir=shared_data).examples
    kept, shared = overlap(train, valid)
    assert (len(kept), len(shared)) == (6973, 500)


def test_gsm_hard_answers_compare_as_they_are_written(shared_data):
    answers = [e.answer for e in read("gsm-hard", DOMAIN, need_steps=False, data_dir=shared_data).examples]
    assert sum(a.startswith("-") for a in answers) == 146
    assert sum(not DOMAIN.same(a, a.split(".")[0]) for a in answers) == 303
    assert "3244047.0999999996" in answers


def test_every_step_of_gsm8k_aug_is_carried_out_again_without_a_fault(shared_data):
    steps = [step for e in iterate("gsm8k-aug", DOMAIN, need_steps=False, data_dir=shared_data) for step in e.steps]
    assert len(steps) > 4000
    assert [fault for step in steps if (fault := DOMAIN.check(step))] == []


def test_known_names_are_benchmarks_by_their_bare_name_and_files_of_the_data_folder(shared_data):
    files = {path.name for path in shared_data.iterdir()} - {"README.md"}
    assert files <= {source.file for source in SOURCES.values()}
