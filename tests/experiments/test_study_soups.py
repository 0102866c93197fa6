"""Rows of a study that evaluate the model soup of another row: planned, averaged, recorded, refused."""

import logging

import pytest
import torch
from cases import cases
from pydantic import ValidationError
from safetensors.torch import load_file
from tiny import job_of, run

from ruplar.errors import UserError
from ruplar.evaluate.record import RECORD, read_record
from ruplar.experiments import cell as cell_module
from ruplar.experiments import storage
from ruplar.experiments.plan import plan
from ruplar.experiments.worker import turn
from ruplar.io import write_json
from ruplar.report.rows import study_of

ROWS = {"Mix": "embedded-ruplar", "Mean": {"soup_of": "Mix"}}


def test_a_soup_comes_with_the_last_of_its_seeds(make_study):
    rows = {**ROWS, "Pairs": {"soup_of": "Mix", "size": 2}}
    cells = plan(make_study(rows=rows, seeds=[3, 1, 2, 5]))
    found = [(cell.name, cell.soup) for cell in cells if cell.soup]
    assert found == [("Pairs-seed3", (3, 1)), ("Mean-seed3", (3, 1, 2, 5)), ("Pairs-seed2", (2, 5))]
    mean = next(cell for cell in cells if cell.label == "Mean")
    assert (mean.of, mean.seed, mean.config.seed) == ("Mix", 3, 3)
    assert [cell.name for cell in cells if mean.needs(cell)] == ["Mix-seed3", "Mix-seed1", "Mix-seed2", "Mix-seed5"]


def test_seeds_left_over_are_in_no_soup_and_too_few_give_a_warning(make_study, caplog):
    rows = {**ROWS, "Threes": {"soup_of": "Mix", "size": 3}}
    assert [c.soup for c in plan(make_study(rows=rows, seeds=[1, 2, 3, 4])) if c.label == "Threes"] == [(1, 2, 3)]
    assert not caplog.records
    with caplog.at_level(logging.WARNING):
        assert [c.label for c in plan(make_study(rows=rows, seeds=[1]))] == ["Mix"]
    assert [r.getMessage() for r in caplog.records] == [
        f"row '{label}' is left out: 1 seeds are too few for a soup." for label in ("Mean", "Threes")
    ]


@pytest.mark.parametrize(("row", "said"), cases(__file__, "impossible"))
def test_an_impossible_soup_is_refused(make_study, row, said):
    short = {"of": "Mix", "set": {"method.max_latents": 1}}
    grid = {"recipe": "embedded-ruplar", "grid": {"prior.operand_share": [0.1, 0.2]}}
    with pytest.raises(ValidationError, match=said):
        make_study(rows={"Mix": "embedded-ruplar", "Short": short, "Grid": grid, "Mean": row})


@pytest.mark.long
def test_the_soup_of_two_trainings_is_averaged_evaluated_and_recorded(make_study, places, monkeypatch):
    study = make_study(rows=ROWS, seeds=[1, 2], ablate={"source": "word-problems", "count": 2})
    found, _ = run(study, places)
    assert (found.failed, found.left) == ({}, [])
    models = [places.work / name / "model" for name in ("Mix-seed1", "Mix-seed2", "Mean-seed1")]
    first, second, mean = (load_file(model / "adapter_model.safetensors") for model in models)
    moved = 0
    for name, weight in mean.items():
        torch.testing.assert_close(weight, (first[name] + second[name]) / 2)
        moved += int((first[name] != second[name]).any())
    assert moved, "two seeds must differ, or the test says nothing"

    record = read_record(places.results / "Mean-seed1")
    each = [read_record(places.results / f"Mix-seed{seed}") for seed in (1, 2)]
    assert (record.name, record.seed, record.mean_of) == ("Mean", 1, [1, 2])
    assert record.train_seconds == pytest.approx(sum(one.train_seconds for one in each))
    assert [b.name for b in record.benchmarks] == ["valid", "word-problems"]
    assert (places.results / "Mean-seed1" / "ablation.json").is_file()
    assert study_of(places.results)["rows"]["Mean"] == {
        "label": "Mean", "set": list(plan(study)[-1].overrides[:-1]), "of": "Mix", "mean": 2,
    }  # fmt: skip

    # killed before its model and its record were complete: averaged and evaluated again
    (places.results / "Mean-seed1" / RECORD).unlink()
    (places.work / "Mean-seed1" / storage.TRAINED).unlink()
    (places.work / "Mean-seed1" / "model" / "adapter_model.safetensors").write_bytes(b"half")
    assert storage.status(plan(study)[-1], places, study) == "waiting"
    run(study, places)
    again = read_record(places.results / "Mean-seed1")
    assert again.mean_of == [1, 2] and [b.correct for b in again.benchmarks] == [b.correct for b in record.benchmarks]

    # a soup of other seeds is another model, and a soup is not a training
    with pytest.raises(UserError, match=r"Mean-seed1: the seeds of the soup were 1, 2, and are now 1, 3\. Use those"):
        run(make_study(rows=ROWS, seeds=[1, 3]), places)
    with pytest.raises(UserError, match="the seeds of the soup were 1, 2, and are now one training"):
        run(make_study(rows={"Mix": "embedded-ruplar", "Mean": "embedded-ruplar"}), places)

    # trainings may differ in commit and versions; a soup with one of uncommitted code enters no table
    made = read_record(places.work / "Mix-seed2" / storage.TRAINED)
    changes = {"dirty": True, "commit": "abc", "versions": {**made.versions, "torch": "9"}}
    for seed, about in ((1, {"dirty": False}), (2, changes)):
        about |= {"seed": seed, "config": {**made.config, "seed": seed}, "data": {**made.data, "start: x": "then"}}
        file = places.work / f"Mix-seed{seed}" / storage.TRAINED
        write_json(file, made.model_copy(update=about).model_dump(mode="json"))
    monkeypatch.setattr(cell_module, "start_mark", lambda init: {"start: x": "now"})  # a soup has its trainings' start
    for stale in (places.results / "Mean-seed1" / RECORD, places.work / "Mean-seed1" / storage.TRAINED):
        stale.unlink()
    assert run(study, places)[0].failed == {}
    mixed = read_record(places.results / "Mean-seed1")
    assert mixed.partial == ["the code had uncommitted changes"] and mixed.commit.endswith(", abc")
    assert mixed.versions["torch"].endswith(", 9") and mixed.versions["python"] == made.versions["python"]

    # with too few seeds its row stays in study.json
    run(make_study(rows=ROWS, seeds=[1]), places)
    assert list(study_of(places.results)["rows"]) == ["Mix", "Mean"]


def test_a_soup_waits_for_all_of_its_models_and_fails_with_one(make_study, places):
    broken = {"recipe": "embedded-ruplar", "set": {"training.train_sampling_strategy": "by name"}}
    study = make_study(rows={"Mix": broken, "Mean": {"soup_of": "Mix"}}, seeds=[1, 2])
    found, _ = run(study, places)
    assert set(found.failed) == {"Mix-seed1", "Mix-seed2", "Mean-seed1"}
    assert found.failed["Mean-seed1"] == "it needs the model of 'Mix', which failed."
    # a soup alone is refused: nobody would train what it needs
    events: list[dict] = []
    job = job_of(make_study(rows=ROWS, seeds=[1, 2]), places, only=["Mean"], session="s")
    turn(job.chosen[0], job, events.append)
    assert [event["event"] for event in events] == ["failed"] and "which is not there" in events[0]["reason"]
