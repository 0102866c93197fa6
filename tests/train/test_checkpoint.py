"""Checkpoints are complete or not used."""

import json
import logging

import pytest

from ruplar.errors import UserError
from ruplar.train import checkpoint


def write(run, step, **files):
    draft = checkpoint.draft_of(run, step, pid=1)
    folder = draft / f"checkpoint-{step}"
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / name).write_text(text)
    return checkpoint.commit(draft, run, step)


def test_a_committed_checkpoint_is_complete_and_leaves_no_draft(tmp_path):
    final = write(tmp_path, 10, weights="abc", optimizer="de")
    assert final == tmp_path / "checkpoint-10" and checkpoint.flaw(final) is None
    assert json.loads((final / "COMPLETE").read_text()) == {"step": 10, "files": {"optimizer": 2, "weights": 3}}
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint-10"]


def test_the_newest_complete_one_is_found_by_number_not_by_name(tmp_path):
    for step in (9, 100, 20):
        write(tmp_path, step, weights="abc")
    assert checkpoint.latest(tmp_path) == tmp_path / "checkpoint-100"
    assert checkpoint.latest(tmp_path / "nowhere") is None


@pytest.mark.parametrize(
    ("harm", "reason"),
    [
        (lambda folder: (folder / "COMPLETE").unlink(), "it has no COMPLETE mark"),
        (lambda folder: (folder / "COMPLETE").write_text('{"files": {"wei'), "mark cannot be read"),
        (lambda folder: (folder / "COMPLETE").write_text("[]"), "mark cannot be read"),
        (lambda folder: (folder / "weights").unlink(), "weights is missing or cut off"),
        (lambda folder: (folder / "weights").write_text("ab"), "weights is missing or cut off"),
    ],
)
def test_an_incomplete_one_is_passed_over_and_named(tmp_path, caplog, harm, reason):
    write(tmp_path, 10, weights="abc")
    harm(write(tmp_path, 20, weights="abc"))
    with caplog.at_level(logging.WARNING):
        assert checkpoint.latest(tmp_path) == tmp_path / "checkpoint-10"
    assert str(tmp_path / "checkpoint-20") in caplog.text and reason in caplog.text


def test_weights_are_safetensors_only_and_an_incomplete_checkpoint_is_not_resumed_from(trainer, tmp_path):
    made, saved = trainer(max_steps=2, save_strategy="steps", save_steps=2), tmp_path / "run" / "checkpoint-2"
    made.train()
    names = {path.name for path in saved.iterdir()}
    assert "adapter_model.safetensors" in names and not any(name.endswith(".bin") for name in names)
    (saved / "optimizer.pt").unlink()
    with pytest.raises(UserError, match="checkpoint-2: cannot be resumed from: optimizer.pt is missing"):
        made.train(resume_from_checkpoint=str(saved))


def test_old_checkpoints_are_removed_but_never_the_best(trainer, tmp_path):
    every = {"eval_strategy": "steps", "eval_steps": 2, "save_strategy": "steps", "save_steps": 2}
    made = trainer(valid=True, max_steps=10, save_total_limit=2, **every)
    scores = iter([0.1, 0.9, 0.4, 0.3, 0.2])
    made.validate = lambda backbone, method: {"accuracy": next(scores)}
    made.train()
    assert sorted(path.name for path in (tmp_path / "run").glob("checkpoint-*")) == ["checkpoint-10", "checkpoint-4"]
    assert not list((tmp_path / "run").glob(".tmp*"))
