"""Real studies of a few steps, in this process: done, failed, resumed, refused, reported."""

import fcntl
import json
import multiprocessing
import shutil
import time

import pytest
from cases import cases
from tiny import FINISHED, run

from ruplar.data.sources import SourceConfig
from ruplar.errors import UserError
from ruplar.evaluate.record import RECORD, SAMPLES, RunRecord, machine, read_record, read_samples, write_record
from ruplar.experiments import storage
from ruplar.experiments.cell import _DATA, _START, check_same
from ruplar.experiments.plan import plan
from ruplar.experiments.run import _join
from ruplar.io import write_json
from ruplar.report.rows import collect, study_of

ROWS = cases(__file__, "rows")


def test_a_process_that_hangs_at_its_end_is_killed():
    process = multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,), daemon=True)
    process.start()
    _join(process, 0.1)
    assert process.exitcode == -9


@pytest.mark.slow
def test_a_study_trains_evaluates_records_fails_where_it_must_and_resumes(make_study, places):
    study = make_study(rows=ROWS, ablate="valid", readable=2)
    found, events = run(study, places)
    assert set(found.failed) == {"Broken-seed1", "Lost-seed1"} and found.left == []
    assert "train_sampling_strategy: must be one of" in found.failed["Broken-seed1"]
    assert found.failed["Lost-seed1"] == "it needs the model of 'Broken', which failed."
    assert [e["cell"] for e in events if e["event"] == "done"] == ["Mix-seed1", "Short-seed1"]

    record = read_record(places.results / "Mix-seed1")
    assert (record.name, record.study, record.seed, record.train_seconds > 0) == ("Mix", "tiny", 1, True)
    assert [(b.name, b.n) for b in record.benchmarks] == [("valid", 3), ("word-problems", 4)]
    assert set(record.data) == {"train 1: word-problems", "valid: word-problems", "test: word-problems"}
    samples = read_samples(places.results / "Mix-seed1")
    assert [row["benchmark"] for row in samples] == ["valid"] * 3 + ["word-problems"] * 4
    kept = [row["index"] for row in samples if row["latents"]]
    assert kept and max(kept) < 2
    # the validation questions are not test questions under another name
    questions = {
        name: {r["question"] for r in samples if r["benchmark"] == name} for name in ("valid", "word-problems")
    }
    assert not questions["valid"] & questions["word-problems"]
    ablation = json.loads((places.results / "Mix-seed1" / "ablation.json").read_text())
    assert [row["mode"] for row in ablation["rows"]][:2] == ["real", "none"] and ablation["on"] == "valid"
    short = read_record(places.results / "Short-seed1")
    assert short.config["method"]["max_latents"] == 1 and all(b.latents <= 1 for b in short.benchmarks)
    assert short.train_seconds == record.train_seconds
    assert not list((places.work / "Mix-seed1").glob("checkpoint-*"))

    # finished cells are skipped, failed ones retried
    before = (places.results / "Mix-seed1" / RECORD).stat().st_mtime_ns
    found, events = run(study, places)
    assert {e["cell"] for e in events if e["event"] in ("start", "failed")} == {"Broken-seed1", "Lost-seed1"}
    assert (places.results / "Mix-seed1" / RECORD).stat().st_mtime_ns == before

    # another budget is another study
    with pytest.raises(UserError, match="training.max_steps was 2 and is now 5"):
        run(study, places, "training.max_steps=5")
    with pytest.raises(UserError, match="method.max_latents was 1 and is now 2"):
        run(make_study(rows={**ROWS, "Short": {"of": "Mix", "set": {"method.max_latents": 2}}}), places)

    rows = collect(places.results)
    assert [(row.study, row.method, row.benchmark, row.seeds) for row in rows] == [
        ("tiny", "Mix", "valid", (1,)), ("tiny", "Mix", "word-problems", (1,)),
        ("tiny", "Short", "valid", (1,)), ("tiny", "Short", "word-problems", (1,)),
    ]  # fmt: skip
    assert list(study_of(places.results)["rows"]) == ["Broken", "Mix", "Short", "Lost"]


def test_a_cell_that_would_train_all_weights_in_bfloat16_fails(make_study, places):
    row = {"recipe": "embedded-no_cot", "set": {"backbone.lora": None, "backbone.dtype": "bfloat16"}}
    found, _ = run(make_study(rows={"All": row}), places)
    assert "would bias the comparison of a study. Set backbone.dtype: float32" in found.failed["All-seed1"]


def test_a_cell_cut_off_after_training_is_evaluated_but_not_trained_again(make_study, finished):
    places, study = finished("tiny"), make_study(rows={"No-CoT": "embedded-no_cot"}, on=FINISHED["on"])
    model = places.work / "No-CoT-seed1" / "model" / "adapter_model.safetensors"
    trained, samples = model.stat().st_mtime_ns, (places.results / "No-CoT-seed1" / SAMPLES).read_bytes()
    (places.results / "No-CoT-seed1" / RECORD).unlink()
    [cell] = plan(study)
    assert storage.status(cell, places, study) == "trained"
    found, _ = run(study, places)
    assert not found.failed and not found.left
    assert model.stat().st_mtime_ns == trained
    assert (places.results / "No-CoT-seed1" / SAMPLES).read_bytes() == samples
    # with more questions the cell is unfinished
    more = study.model_copy(update={"on": (SourceConfig(source="word-problems", count=6),)})
    assert storage.status(cell, places, more) == "trained"

    # changed data are detected by their fingerprint
    trained_record = places.work / "No-CoT-seed1" / storage.TRAINED
    changed = json.loads(trained_record.read_text())
    changed["data"]["train 1: word-problems"] = "seed 5, 41 examples"
    trained_record.write_text(json.dumps(changed))
    (places.results / "Mix-seed1" / RECORD).unlink()
    both = make_study(rows={"No-CoT": "embedded-no_cot", "Mix": "embedded-ruplar"})
    found, _ = run(both, places, only=["Mix"])
    said = "'train 1: word-problems' is seed 5, 40 examples, but seed 5, 41 examples in 'No-CoT'"
    assert said in found.failed["Mix-seed1"]


def test_a_bug_fails_only_its_cell_and_is_in_its_log(make_study, places, monkeypatch):
    def breaks(*arguments):
        raise ZeroDivisionError("our own mistake")

    monkeypatch.setattr("ruplar.experiments.cell.run_cell", breaks)
    found, _ = run(make_study(rows={"A": "embedded-no_cot", "B": "embedded-no_cot"}), places)
    assert found.failed == dict.fromkeys(("A-seed1", "B-seed1"), "ZeroDivisionError: our own mistake")
    assert "in breaks" in (places.work / "A-seed1" / storage.LOG).read_text()


def test_a_cell_claimed_by_a_living_process_is_left_to_it(make_study, places, monkeypatch):
    study = make_study(rows={"No-CoT": "embedded-no_cot"})
    [cell] = plan(study)
    with storage.claim(cell, places) as mine:
        assert mine and storage.status(cell, places, study) == "running"
        found, events = run(study, places)
        assert events == [] and found.left == ["No-CoT-seed1"]
    assert storage.status(cell, places, study) == "waiting"
    with (places.run(cell) / ".lock").open() as looking:  # as `--plan` does in another process, for an instant
        fcntl.flock(looking, fcntl.LOCK_SH)
        monkeypatch.setattr(time, "sleep", lambda seconds: fcntl.flock(looking, fcntl.LOCK_UN))
        with storage.claim(cell, places) as mine:
            assert mine


def test_a_row_whose_model_was_removed_is_refused_instead_of_waited_for(make_study, finished):
    places = finished("tiny")
    shutil.rmtree(places.work)  # a user keeps the records but not the models
    (places.results / "Short-seed1" / RECORD).unlink()
    found, _ = run(make_study(**FINISHED), places)
    assert found.left == [] and list(found.failed) == ["Short-seed1"]
    assert "which is not there" in found.failed["Short-seed1"]


def test_cells_run_in_processes_of_their_own_with_their_output_in_their_logs(make_study, finished, capfd):
    places = finished("tiny")
    for cell in ("No-CoT-seed1", "Short-seed1"):
        (places.results / cell / RECORD).unlink()
    found, events = run(make_study(**FINISHED), places, jobs=2)
    assert (found.failed, found.left) == ({}, [])
    assert sorted(event["cell"] for event in events if event["event"] == "done") == ["No-CoT-seed1", "Short-seed1"]
    assert {event["cell"] for event in events[:2]} == {"No-CoT-seed1", "Short-seed1"}, "both have started"
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize("evaluated", [False, True])
@pytest.mark.parametrize(("name", "kinds"), [("train 1: a", _DATA), ("valid: v", _DATA), ("start: runs/cot", _START)])
def test_data_and_starts_that_changed_under_their_name_are_refused(make_study, places, evaluated, name, kinds):
    marks = {"train 1: a": "one", "valid: v": "two", "start: runs/cot": "three", "test: t": "four"}
    cells = plan(make_study(rows=dict.fromkeys("AB", "embedded-no_cot")))
    cell, other = cells
    record = RunRecord(
        name="b", config={}, seed=1, commit=None, dirty=None, versions={}, machine=machine(), data=marks, started=""
    )
    if evaluated:  # its model may have been deleted
        write_record(record, places.result(other))
    else:
        write_json(places.run(other) / storage.TRAINED, record.model_dump(mode="json"))
    rest = (places, cells, kinds)
    check_same(cell, {**marks, "test: t": "changed", "start: runs/other": "x"}, *rest)
    with pytest.raises(UserError, match=f"A, seed 1: '{name}' is changed, but {marks[name]} in 'B', seed 1"):
        check_same(cell, {**marks, name: "changed"}, *rest)
