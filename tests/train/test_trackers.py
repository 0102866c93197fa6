"""`training.report_to`: what a tracker gets, read back from its own files. Trackers other than TensorBoard run where they are installed."""

import contextlib
import json
import sqlite3

import pytest

from ruplar.errors import UserError
from ruplar.train import METRICS, trackers
from ruplar.train.progress import rows
from ruplar.train.run import train
from ruplar.types import Answer, Example, Latent


def run_with(tracker: str, config, folder) -> list[dict]:
    """A run of 4 steps with validation after 2 and 4 → its curve."""
    settings = {"valid": True, "eval_strategy": "steps", "eval_steps": 2, "save_strategy": "no"}
    train(config(max_steps=4, report_to=tracker, **settings), output=folder / "run")
    return [row for row in rows(folder / "run" / METRICS) if row["kind"] == "train"]


def test_tensorboard_gets_the_loss_parts_the_metrics_and_sample_thoughts(config, tmp_path):
    event_accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    curve = run_with("tensorboard", config, tmp_path)
    [file] = (tmp_path / "run" / "runs").rglob("events.out.tfevents.*")
    found = event_accumulator.EventAccumulator(str(file))
    found.Reload()
    for name in ("loss", "answer", "prior", "align", "entropy", "halting", "tokens_per_second"):
        values = [(event.step, event.value) for event in found.Scalars(f"train/{name}")]
        assert values == [(row["step"], pytest.approx(row[name], rel=1e-5)) for row in curve], name
    assert [event.step for event in found.Scalars("eval/halting")] == [2, 4]
    texts = [event.tensor_proto.string_val[0].decode() for event in found.Tensors("eval/thoughts/text_summary")]
    assert len(texts) == 2 and all(text.startswith("| question | thought | answer | reference |") for text in texts)
    assert texts[0].count("\n") == 1 + trackers.SAMPLES  # the header's line, then one question per line


def test_a_thought_is_the_likeliest_tokens_of_each_latent_with_their_probabilities():
    latents = (Latent((" 3", "*", "+"), (0.64, 0.3, 0.06), 0.8, 0.0), Latent(("36", "-"), (0.62, 0.38), 0.6, 0.9))
    row = trackers.thought_of(Example("How many?", (), "26"), Answer(" 26", latents=latents))
    assert row == ("How many?", "3 0.64 * 0.30 | 36 0.62 - 0.38", "26", "26")
    assert "3 0.64 * 0.30 \\| 36 0.62 - 0.38" in trackers._markdown([row])


def test_a_tracker_that_is_not_installed_is_named_with_the_command_that_installs_it(trainer, monkeypatch):
    monkeypatch.setattr(trackers, "find_spec", lambda name: None)
    with pytest.raises(UserError, match="report_to: wandb is not installed. Run `pip install wandb`"):
        trainer(report_to="wandb")


@pytest.mark.long
def test_mlflow_gets_the_loss_parts_and_sample_thoughts(config, tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow", reason="pip install mlflow to run it")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    monkeypatch.chdir(tmp_path)
    trained = run_with("mlflow", config, tmp_path)
    client = mlflow.MlflowClient()
    [run] = client.search_runs([e.experiment_id for e in client.search_experiments()])
    for name in ("loss", "prior", "entropy", "halting"):
        found = [metric.value for metric in client.get_metric_history(run.info.run_id, name)]
        assert found == [pytest.approx(row[name], rel=1e-5) for row in trained], name
    assert [file.path for file in client.list_artifacts(run.info.run_id, "thoughts")] == [
        "thoughts/step-2.md",
        "thoughts/step-4.md",
    ]


@pytest.mark.long
def test_wandb_gets_the_loss_parts_and_sample_thoughts_offline(config, tmp_path, monkeypatch):
    wandb = pytest.importorskip("wandb", reason="pip install wandb to run it")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    run_with("wandb", config, tmp_path)
    wandb.finish()
    [file] = tmp_path.glob("wandb/offline-run-*/run-*.wandb")
    for name in ("train/loss", "train/prior", "train/entropy", "eval/halting"):
        assert name.encode() in file.read_bytes(), name
    tables = [json.loads(file.read_text()) for file in tmp_path.glob("wandb/offline-run-*/files/media/table/eval/*")]
    assert [table["columns"] for table in tables] == [list(trackers.COLUMNS)] * 2
    assert [len(table["data"]) for table in tables] == [trackers.SAMPLES] * 2


@pytest.mark.long
def test_trackio_gets_the_loss_parts_and_sample_thoughts(config, tmp_path, monkeypatch):
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))  # read when it is imported
    pytest.importorskip("trackio", reason="pip install trackio to run it")
    trained = run_with("trackio", config, tmp_path)
    [file] = (tmp_path / "trackio").glob("*.db")
    with contextlib.closing(sqlite3.connect(file)) as stored:
        found = [json.loads(row) for (row,) in stored.execute("select metrics from metrics order by id")]
    for name in ("loss", "prior", "entropy", "halting"):
        values = [row[f"train/{name}"] for row in found if f"train/{name}" in row]
        assert values == [pytest.approx(row[name], rel=1e-5) for row in trained], name
    thoughts = [row["eval/thoughts"]["_value"] for row in found if "eval/thoughts" in row]
    assert [text.count("\n") for text in thoughts] == [1 + trackers.SAMPLES] * 2
