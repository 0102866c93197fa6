"""Records of other studies are reused where they equal what a cell's own would be, and nowhere else."""

from __future__ import annotations

import json

import pytest
from tiny import job_of, run

from ruplar.data.sources import open_source
from ruplar.errors import UserError
from ruplar.evaluate.record import (
    STUDY,
    BenchmarkResult,
    Machine,
    RunRecord,
    read_record,
    read_samples,
    write_record,
    write_samples,
)
from ruplar.experiments import reuse, storage
from ruplar.experiments.cell import model_needed, run_cell
from ruplar.experiments.plan import plan
from ruplar.experiments.study import VALID
from ruplar.experiments.worker import work
from ruplar.io import write_json

MIX = "embedded-ruplar"
SHORT = {"of": "Mix", "set": {"method.max_latents": 1}}
FIGURES = {"correct": 0, "latents": 1, "answer_tokens": 1, "forwards": 1, "ms_per_question": 1}
MADE = {"commit": "c", "dirty": False, "versions": {}, "machine": Machine(cpu="x", cores=1, memory_gb=1)}
DATA = {"train 1: word-problems": "seed 5, 40 examples", "valid: word-problems": "seed 2, 3 examples"}


@pytest.fixture
def places(places_of):
    """Name of a study → its folders."""
    return places_of


def leave(study, at, only=None, **changes):
    """Write the records of a study, every answer wrong, without training or evaluating a model."""
    cells = plan(study)
    storage.write_study(study, cells, at)
    for cell in (c for c in cells if only is None or c.label in only):
        rows, results = [], []
        for source in study.on:
            valid = source.source == VALID
            opened = open_source(
                cell.config.data.valid if valid else source, cell.config.data.domain.make(),
                need_steps=False, split="valid" if valid else "test",
            )  # fmt: skip
            for i, e in enumerate(opened.examples):
                asked = {"source": e.source, "question": e.question, "marked": e.answer, "steps": list(e.steps)}
                how = {"seed": 0, "decoding": "greedy", "correct": False, "latents": []}
                rows.append({"benchmark": source.name, "index": i, **asked, **how})
            results.append(BenchmarkResult(name=source.name, n=len(opened.examples), **FIGURES))
        about = {"name": cell.label, "study": study.name, "config": cell.config.as_dict(), "seed": cell.seed}
        about |= {**MADE, "started": "then", "data": DATA, "benchmarks": results}
        write_samples(rows, at.result(cell), share=True)
        write_record(RunRecord(**{**about, **changes}), at.result(cell))


def found(study, at, label=None):
    """Return study and folder of the record that would be reused for a cell; None if there is none."""
    cells = plan(study)
    [cell] = [cell for cell in cells if label in (None, cell.label)]
    folder = reuse.find_record(cell, at, study, cells)
    return folder and (folder.parent.name, folder.name)


def test_a_model_asked_under_other_settings_is_no_model_trained_under_them(make_study, places):
    leave(make_study(rows={"Mix": MIX, "Short": SHORT}), places("asks"))
    trained = make_study(rows={"Mine": {"recipe": MIX, "set": {"method.max_latents": 1}}})
    assert found(trained, places("mine")) is None  # its settings are those of the row that asks Mix's model
    leave(trained, places("trains"))
    assert found(trained, places("mine")) == ("trains", "Mine-seed1")
    both = make_study(rows={"Mix": MIX, "Short": SHORT})
    assert found(both, places("mine"), "Short") == ("asks", "Short-seed1")


def test_a_row_that_asks_a_model_takes_no_record_of_another_model(make_study, places):
    five = {"recipe": MIX, "set": {"method.max_latents": 5}}
    leave(make_study(rows={"Mix": five, "Short": SHORT}), places("five"))
    study = make_study(rows={"Mix": MIX, "Short": SHORT})
    cells = plan(study)
    assert read_record(places("five").results / "Short-seed1").config == cells[1].config.as_dict()
    assert found(study, places("mine"), "Short") is None


@pytest.mark.parametrize("other", [{"seed": 9}, {"steps": [1, 1]}], ids=str)
def test_other_questions_under_the_same_name_are_not_these(make_study, places, other):
    leave(make_study(rows={"Mix": MIX}), places("other"))
    study = make_study(rows={"Mix": MIX}, on=["valid", {"source": "word-problems", "count": 4, **other}])
    assert found(study, places("mine")) is None
    assert found(make_study(rows={"Mix": MIX}), places("mine")) == ("other", "Mix-seed1")


def test_a_file_that_has_changed_or_is_gone_is_asked_anew(make_study, places, tmp_path):
    file = tmp_path / "mine.jsonl"
    file.write_text('{"question": "What is 3 + 4?", "answer": "7"}\n')
    study = make_study(rows={"Mix": MIX}, on=[str(file)])
    leave(study, places("other"))
    assert found(study, places("mine")) == ("other", "Mix-seed1")
    reuse._questions.cache_clear()  # as in another process
    file.write_text('{"question": "What is 3 + 5?", "answer": "8"}\n')
    assert found(study, places("mine")) is None
    reuse._questions.cache_clear()
    file.unlink()
    assert found(study, places("mine")) is None


@pytest.mark.parametrize("text", ["{", "[]", '{"rows": {}}'])
def test_folders_that_are_no_study_are_passed_over(make_study, places, text):
    study = make_study(rows={"Mix": MIX})
    leave(study, places("whole"))
    leave(study, places("a-broken-one"))
    (places("a-broken-one").results / STUDY).write_text(text)
    assert found(study, places("mine")) == ("whole", "Mix-seed1")


def test_a_record_of_changed_code_is_taken_by_changed_code_alone(make_study, places, monkeypatch):
    study = make_study(rows={"Mix": MIX})
    leave(study, places("other"), dirty=True)
    for changed in (False, True):
        monkeypatch.setattr(reuse, "commit_of", lambda changed=changed: ("c", changed))
        assert (found(study, places("mine")) is not None) == changed


def test_a_cell_whose_model_is_here_is_asked_itself(make_study, places):
    study, mine = make_study(rows={"Mix": MIX, "Short": SHORT}), places("mine")
    leave(study, places("other"))
    write_json(mine.work / "Mix-seed1" / storage.TRAINED, {})
    assert found(study, mine, "Mix") is None and found(study, mine, "Short") is None


def test_what_was_asked_besides_the_study_is_not_taken(make_study, places):
    study, source = make_study(rows={"Mix": MIX}), places("other").results / "Mix-seed1"
    leave(study, places("other"))
    record, rows = read_record(source), read_samples(source)
    sampled = {"decoding": "T=0.6 top-p=0.95", "seed": 3}
    write_samples([*rows, *({**row, **sampled} for row in rows[:2])], source)  # as `ruplar evaluate` leaves them
    more = record.benchmarks[1].model_copy(update={**sampled, "n": 2})
    write_record(record.with_benchmark(more), source)
    [cell] = plan(study)
    assert storage.status(cell, places("other"), study) == "done"
    assert found(study, places("mine")) == ("other", "Mix-seed1")
    got = reuse.copy_record(source, cell, places("mine"), study)
    assert got.benchmarks == record.benchmarks and got.reused_from == "other/Mix-seed1"
    assert read_samples(places("mine").result(cell)) == rows


def test_a_taken_record_must_be_of_the_data_the_others_were_trained_on(make_study, places):
    study, mine = make_study(rows={"Mix": MIX, "No": "embedded-no_cot"}), places("mine")
    leave(study, places("other"))
    leave(study, mine, only=["No"], data={**DATA, "train 1: word-problems": "seed 5, 41 examples"})
    cells = plan(study)
    with pytest.raises(UserError, match="40 examples, but seed 5, 41 examples in 'No'"):
        run_cell(cells[0], job_of(study, mine), lambda *progress: None)


def test_a_model_that_is_to_be_asked_more_is_trained_though_its_record_is_elsewhere(make_study, places):
    rows, mine = {"Mix": MIX, "Short": SHORT}, places("mine")
    leave(make_study(rows=rows), places("other"), only=["Mix"])
    leave(make_study(rows=rows, on=["valid"]), mine)  # so both are yet to be asked word problems
    study = make_study(rows=rows)
    cells = plan(study)
    assert model_needed(cells[0], job_of(study, mine))


def test_a_row_whose_model_was_not_taken_with_its_record_is_refused_instead_of_waited_for(make_study, places):
    study, mine = make_study(rows={"Mix": MIX, "Short": SHORT}), places("mine")
    leave(study, mine, only=["Mix"])  # by another worker, since this one was told what is to be done
    events = []
    work([job_of(study, mine, session="s")], events.append)
    assert [(event["event"], event["cell"]) for event in events] == [("failed", "Short-seed1")]
    assert "which has a record but no model" in json.dumps(events)


def test_a_reused_cell_says_so_and_no_reuse_trains_it(make_study, places, monkeypatch):
    study = make_study(rows={"No": "embedded-no_cot"})
    leave(study, places("other"))
    monkeypatch.setattr(reuse, "commit_of", lambda: ("c", False))
    _, events = run(study, places("mine"))
    [done] = [event for event in events if event["event"] == "done"]
    assert done["reused_from"] == "other/No-seed1" and not (places("mine").run(plan(study)[0]) / "model").exists()
    assert read_record(places("mine").results / "No-seed1").reused_from == "other/No-seed1"
    _, events = run(study, places("third"), reuse=False)
    [done] = [event for event in events if event["event"] == "done"]
    assert done["reused_from"] == "" and (places("third").run(plan(study)[0]) / "model").is_dir()
    assert read_record(places("third").results / "No-seed1").reused_from == ""
