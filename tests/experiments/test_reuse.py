"""Models of other studies are reused where they equal what a cell's own would be, and nowhere else."""

import json
import shutil

import pytest
from tiny import FINISHED, run

from ruplar.evaluate.record import read_record
from ruplar.experiments import cell as cell_module
from ruplar.experiments import storage
from ruplar.experiments.plan import plan
from ruplar.report.marks import marks_note
from ruplar.report.rows import find_runs, pool


@pytest.mark.slow
def test_a_model_that_another_study_has_trained_is_not_trained_again_unless_told_to(
    make_study, finished, places_of, monkeypatch
):
    first, second = finished("first"), places_of("second")
    trained = []
    plain = cell_module.train
    monkeypatch.setattr(cell_module, "train", lambda config, **more: trained.append(config) or plain(config, **more))
    study = make_study(name="more", rows={"Same": "embedded-ruplar"}, on=FINISHED["on"])
    found, _ = run(study, second)
    assert not found.failed and trained == []
    old, own = read_record(first.results / "Mix-seed1"), read_record(second.results / "Same-seed1")
    assert (own.name, own.study, own.started) == ("Same", "more", old.started)
    assert [(b.name, b.correct) for b in own.benchmarks] == [(b.name, b.correct) for b in old.benchmarks]
    assert (second.results / "Same-seed1" / "metrics.jsonl").is_file()
    assert own.model_from == str(first.work / "Mix-seed1") and old.model_from == ""
    assert f"⁵ Model reused from {own.model_from}." in marks_note(pool(find_runs([second.results], True), True))
    found, _ = run(study, places_of("third"), reuse=False)
    assert not found.failed and len(trained) == 1


def test_a_reused_model_is_told_on_screen(capsys):
    from rich.console import Console

    from ruplar.cli.study import _print_event

    done = {"event": "done", "cell": "Same-seed1", "scores": {"valid": 50.0}, "seconds": 0.2}
    for more in ({"model_from": "runs/first/Mix-seed1"}, {"model_from": ""}):
        _print_event(Console(), {**done, **more})
    first, second = capsys.readouterr().out.splitlines()
    assert first.endswith("in 0 s  (model reused from runs/first/Mix-seed1)") and second.endswith("in 0 s")


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


@pytest.mark.slow
def test_a_cell_killed_while_it_copies_a_model_copies_it_again_or_trains(make_study, finished, places_of, monkeypatch):
    first, second = finished("first"), places_of("second")
    study = make_study(rows={"No-CoT": "embedded-no_cot"})

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
