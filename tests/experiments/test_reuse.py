"""Records of other studies are reused where they equal what a cell's own would be, and nowhere else."""

from __future__ import annotations

import json
import shutil

import pytest
from tiny import FINISHED, job_of, run

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
from ruplar.experiments import cell as cell_module
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


def test_a_model_evaluated_with_other_settings_is_not_a_model_trained_with_them(make_study, places_of):
    leave(make_study(rows={"Mix": MIX, "Short": SHORT}), places_of("asks"))
    trained = make_study(rows={"Mine": {"recipe": MIX, "set": {"method.max_latents": 1}}})
    assert found(trained, places_of("mine")) is None  # its settings are those of the row that asks Mix's model
    leave(trained, places_of("trains"))
    assert found(trained, places_of("mine")) == ("trains", "Mine-seed1")
    both = make_study(rows={"Mix": MIX, "Short": SHORT})
    assert found(both, places_of("mine"), "Short") == ("asks", "Short-seed1")


def test_a_row_that_evaluates_a_model_reuses_no_record_of_another_model(make_study, places_of):
    five = {"recipe": MIX, "set": {"method.max_latents": 5}}
    leave(make_study(rows={"Mix": five, "Short": SHORT}), places_of("five"))
    study = make_study(rows={"Mix": MIX, "Short": SHORT})
    cells = plan(study)
    assert read_record(places_of("five").results / "Short-seed1").config == cells[1].config.as_dict()
    assert found(study, places_of("mine"), "Short") is None


@pytest.mark.parametrize("other", [{"seed": 9}, {"steps": [1, 1]}], ids=str)
def test_other_questions_under_the_same_name_are_not_these(make_study, places_of, other):
    leave(make_study(rows={"Mix": MIX}), places_of("other"))
    study = make_study(rows={"Mix": MIX}, on=["valid", {"source": "word-problems", "count": 4, **other}])
    assert found(study, places_of("mine")) is None
    assert found(make_study(rows={"Mix": MIX}), places_of("mine")) == ("other", "Mix-seed1")


def test_a_changed_or_missing_file_is_evaluated_again(make_study, places_of, tmp_path):
    file = tmp_path / "mine.jsonl"
    file.write_text('{"question": "What is 3 + 4?", "answer": "7"}\n')
    study = make_study(rows={"Mix": MIX}, on=[str(file)])
    leave(study, places_of("other"))
    assert found(study, places_of("mine")) == ("other", "Mix-seed1")
    reuse._questions.cache_clear()  # as in another process
    file.write_text('{"question": "What is 3 + 5?", "answer": "8"}\n')
    assert found(study, places_of("mine")) is None
    reuse._questions.cache_clear()
    file.unlink()
    assert found(study, places_of("mine")) is None


@pytest.mark.parametrize("text", ["{", "[]", '{"rows": {}}'])
def test_folders_without_a_study_are_skipped(make_study, places_of, text):
    study = make_study(rows={"Mix": MIX})
    leave(study, places_of("whole"))
    leave(study, places_of("a-broken-one"))
    (places_of("a-broken-one").results / STUDY).write_text(text)
    assert found(study, places_of("mine")) == ("whole", "Mix-seed1")


def test_a_record_of_uncommitted_code_is_reused_only_by_uncommitted_code(make_study, places_of, monkeypatch):
    study = make_study(rows={"Mix": MIX})
    leave(study, places_of("other"), dirty=True)
    for changed in (False, True):
        monkeypatch.setattr(reuse, "commit_of", lambda changed=changed: ("c", changed))
        assert (found(study, places_of("mine")) is not None) == changed


def test_a_cell_whose_model_is_here_is_evaluated(make_study, places_of):
    study, mine = make_study(rows={"Mix": MIX, "Short": SHORT}), places_of("mine")
    leave(study, places_of("other"))
    write_json(mine.work / "Mix-seed1" / storage.TRAINED, {})
    assert found(study, mine, "Mix") is None and found(study, mine, "Short") is None


def test_results_besides_those_of_the_study_are_not_copied(make_study, places_of):
    study, source = make_study(rows={"Mix": MIX}), places_of("other").results / "Mix-seed1"
    leave(study, places_of("other"))
    record, rows = read_record(source), read_samples(source)
    sampled = {"decoding": "T=0.6 top-p=0.95", "seed": 3}
    write_samples([*rows, *({**row, **sampled} for row in rows[:2])], source)  # as `ruplar evaluate` leaves them
    more = record.benchmarks[1].model_copy(update={**sampled, "n": 2})
    write_record(record.with_benchmark(more), source)
    [cell] = plan(study)
    assert storage.status(cell, places_of("other"), study) == "done"
    assert found(study, places_of("mine")) == ("other", "Mix-seed1")
    got = reuse.copy_record(source, cell, places_of("mine"), study)
    assert got.benchmarks == record.benchmarks and got.reused_from == "other/Mix-seed1"
    assert read_samples(places_of("mine").result(cell)) == rows


def test_a_reused_record_must_have_the_data_of_the_others(make_study, places_of):
    study, mine = make_study(rows={"Mix": MIX, "No": "embedded-no_cot"}), places_of("mine")
    leave(study, places_of("other"))
    leave(study, mine, only=["No"], data={**DATA, "train 1: word-problems": "seed 5, 41 examples"})
    cells = plan(study)
    with pytest.raises(UserError, match="40 examples, but seed 5, 41 examples in 'No'"):
        run_cell(cells[0], job_of(study, mine), lambda *progress: None)


def test_a_model_that_another_row_needs_is_trained_though_its_record_is_elsewhere(make_study, places_of):
    rows, mine = {"Mix": MIX, "Short": SHORT}, places_of("mine")
    leave(make_study(rows=rows), places_of("other"), only=["Mix"])
    leave(make_study(rows=rows, on=["valid"]), mine)  # so both are yet to be asked word problems
    study = make_study(rows=rows)
    cells = plan(study)
    assert model_needed(cells[0], job_of(study, mine))


def test_a_row_whose_model_was_not_copied_with_its_record_is_refused_instead_of_waited_for(make_study, places_of):
    study, mine = make_study(rows={"Mix": MIX, "Short": SHORT}), places_of("mine")
    leave(study, mine, only=["Mix"])  # by another worker, since this one was told what is to be done
    events = []
    work([job_of(study, mine, session="s")], events.append)
    assert [(event["event"], event["cell"]) for event in events] == [("failed", "Short-seed1")]
    assert "which has a record but no model" in json.dumps(events)


def test_a_reused_cell_says_so_and_no_reuse_trains_it(make_study, places_of, monkeypatch):
    study = make_study(rows={"No": "embedded-no_cot"})
    leave(study, places_of("other"))
    monkeypatch.setattr(reuse, "commit_of", lambda: ("c", False))
    _, events = run(study, places_of("mine"))
    [done] = [event for event in events if event["event"] == "done"]
    assert done["reused_from"] == "other/No-seed1" and not (places_of("mine").run(plan(study)[0]) / "model").exists()
    assert read_record(places_of("mine").results / "No-seed1").reused_from == "other/No-seed1"
    _, events = run(study, places_of("third"), reuse=False)
    [done] = [event for event in events if event["event"] == "done"]
    assert done["reused_from"] == "" and (places_of("third").run(plan(study)[0]) / "model").is_dir()
    assert read_record(places_of("third").results / "No-seed1").reused_from == ""


def test_a_model_that_another_study_has_trained_is_not_trained_again(make_study, finished, places_of, monkeypatch):
    first, second = finished("first"), places_of("second")
    trained = []
    plain = cell_module.train
    monkeypatch.setattr(cell_module, "train", lambda config, **more: trained.append(config) or plain(config, **more))
    other = {"recipe": "embedded-ruplar", "set": {"method.prior_weight": 2.0}}
    how = {"batch_size": 3, "on": FINISHED["on"]}  # another batch size: the record is not reusable, but the model is
    found, _ = run(make_study(name="more", rows={"Same": "embedded-ruplar", "Other": other}, **how), second)
    assert not found.failed and [config.method.model_extra["prior_weight"] for config in trained] == [2.0]
    old, own = read_record(first.results / "Mix-seed1"), read_record(second.results / "Same-seed1")
    assert (own.name, own.study, own.started, own.train_seconds) == (
        "Same", "more", old.started, old.train_seconds,
    )  # fmt: skip
    right = [[(b.name, b.correct) for b in record.benchmarks] for record in (old, own)]
    assert right[0] == right[1]
    assert (second.results / "Same-seed1" / "metrics.jsonl").is_file()


def test_a_model_is_reused_only_if_complete_readable_and_of_the_same_code(
    make_study, finished, places_of, monkeypatch
):
    first, second = finished("first"), places_of("second")
    [cell] = plan(make_study(rows={"No-CoT": "embedded-no_cot"}))
    source = first.run(cell)
    assert storage.find_trained(cell, second, "model") == source
    commit, dirty = storage.commit_of()
    monkeypatch.setattr(storage, "commit_of", lambda: (commit, not dirty))  # committed code, or changed since
    assert storage.find_trained(cell, second, "model") is None
    monkeypatch.undo()
    (source / "model").rename(source / "moved")
    assert storage.find_trained(cell, second, "model") is None
    (source / "moved").rename(source / "model")
    broken = places_of("a-broken-one").run(cell)
    shutil.copytree(source, broken)
    (broken / storage.TRAINED).write_text('{"name": "of another version"}')
    assert storage.find_trained(cell, second, "model") == source


def test_a_cell_killed_while_it_copies_a_model_copies_it_again_or_trains(make_study, finished, places_of, monkeypatch):
    first, second = finished("first"), places_of("second")
    study = make_study(
        rows={"No-CoT": "embedded-no_cot"}, batch_size=3
    )  # another batch size: only the model is reusable

    def killed(source, run, parts):  # with half a model and the whole curve
        shutil.copytree(source / "model", run / "model", ignore=shutil.ignore_patterns("*.safetensors"))
        shutil.copyfile(source / "metrics.jsonl", run / "metrics.jsonl")
        raise KeyboardInterrupt

    for gone in (False, True):
        monkeypatch.setattr(storage, "copy_training", killed)
        with pytest.raises(KeyboardInterrupt):
            run(study, second)
        monkeypatch.undo()
        if gone:
            shutil.rmtree(first.work)
        found, events = run(study, second)
        assert not found.failed and not found.left
        assert ("train" in {event.get("what") for event in events}) == gone
        curve = (second.results / "No-CoT-seed1" / "metrics.jsonl").read_text().splitlines()
        assert [json.loads(row)["step"] for row in curve if json.loads(row)["kind"] == "train"] == [1, 2]
        shutil.rmtree(second.results), shutil.rmtree(second.work)


def test_a_record_of_another_study_is_copied_with_the_benchmarks_of_this_one(
    make_study, finished, places_of, monkeypatch
):
    first, second = finished("first"), places_of("second")
    shutil.rmtree(first.work)  # only records, no models

    def none(*given, **more):
        raise AssertionError("nothing was to be trained or evaluated")

    monkeypatch.setattr(cell_module, "train", none)
    monkeypatch.setattr(cell_module, "evaluate", none)
    rows = FINISHED["rows"]
    renamed = {"Same": rows["Mix"], "Shorter": {**rows["Short"], "of": "Same"}}
    found, _ = run(make_study(name="more", rows=renamed), second)
    assert not found.failed and not found.left
    for before, after in (("Mix", "Same"), ("Short", "Shorter")):
        source, copied = first.results / f"{before}-seed1", second.results / f"{after}-seed1"
        old, new = read_record(source), read_record(copied)
        assert (new.name, new.study, new.started) == (after, "more", old.started)
        assert new.benchmarks == old.benchmarks[:2] and len(old.benchmarks) == 3
        assert read_samples(copied) == [
            row for row in read_samples(source) if row["benchmark"] != "word-problems:short"
        ]
    study = make_study(rows=rows, engine="fast")  # its timings would differ
    third = places_of("third")
    assert reuse.find_record(plan(study)[0], third, study, plan(study)) is None
    more = make_study(rows={**rows, "Long": {"of": "Mix", "set": {"method.max_latents": 9}}})
    found, _ = run(more, places_of("fourth"))
    assert "nothing was to be trained" in found.failed["Mix-seed1"]  # its model is needed, not only its record
