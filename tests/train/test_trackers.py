"""`training.report_to`: what a tracker gets, read back from its own files; trackers other than TensorBoard where they are installed."""

import json
import sqlite3
import struct

import pytest

from ruplar.errors import UserError
from ruplar.train import METRICS, trackers
from ruplar.train.progress import rows
from ruplar.train.run import train
from ruplar.types import Answer, Example, Latent

EVERY_TWO = {"valid": True, "eval_strategy": "steps", "eval_steps": 2, "save_strategy": "no"}
NAMES = ("loss", "answer", "prior", "align", "entropy", "halting", "tokens_per_second")
HEADER = "| question | thought | answer | reference |\n"


def tensorboard(folder):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    [file] = (folder / "run" / "runs").rglob("events.out.tfevents.*")
    found = EventAccumulator(str(file)).Reload()
    texts = [event.tensor_proto.string_val[0].decode() for event in found.Tensors("eval/thoughts/text_summary")]
    return lambda name: [(e.step, e.value) for e in found.Scalars(name)], texts


def mlflow(folder):
    from mlflow import MlflowClient, artifacts

    client = MlflowClient()
    [run] = client.search_runs([e.experiment_id for e in client.search_experiments()])
    uris = [f"{run.info.artifact_uri}/{file.path}" for file in client.list_artifacts(run.info.run_id, "thoughts")]

    def values(name):
        history = client.get_metric_history(run.info.run_id, name.removeprefix("train/").replace("eval/", "eval_"))
        return [(metric.step, metric.value) for metric in history]

    return values, list(map(artifacts.load_text, uris))


def logged(sent, texts):
    """Rows of metrics by name → as the others."""
    return lambda name: [(row["train/global_step"], row[name]) for row in sent if name in row], texts


def wandb(folder):
    import wandb
    from wandb.proto.wandb_internal_pb2 import Record

    wandb.finish()
    [file] = folder.glob("wandb/offline-run-*/run-*.wandb")
    data, at, record, sent = file.read_bytes(), 7, b"", []
    while at < len(data):  # LevelDB's log: blocks of 32 KB, a record may continue in the next
        if (left := 32768 - at % 32768) < 7:
            at += left
            continue
        size, kind = struct.unpack_from("<4xHB", data, at)
        record, at = record + data[at + 7 : at + 7 + size], at + 7 + size
        if kind in (1, 4):  # whole, or its last part
            items, record = Record.FromString(record).history.item, b""
            sent.append({"/".join(item.nested_key) or item.key: json.loads(item.value_json) for item in items})
    paths = [row["eval/thoughts/path"] for row in sent if "eval/thoughts/path" in row]
    tables = [json.loads((folder / "wandb/latest-run/files" / path).read_text()) for path in paths]
    return logged(sent, [trackers._markdown(one["data"]) for one in tables if one["columns"] == [*trackers.COLUMNS]])


def trackio(folder):
    [file] = (folder / "trackio").glob("*.db")
    found = sqlite3.connect(file).execute("select metrics from metrics order by id").fetchall()
    sent = [json.loads(row) for (row,) in found]
    return logged(sent, [row["eval/thoughts"]["_value"] for row in sent if "eval/thoughts" in row])


@pytest.mark.parametrize("read", [tensorboard, mlflow, wandb, trackio], ids=lambda read: read.__name__)
def test_a_tracker_gets_the_loss_parts_the_metrics_and_sample_thoughts(read, config, tmp_path, monkeypatch):
    store = {"WANDB_MODE": "offline", "WANDB_DIR": tmp_path, "MLFLOW_TRACKING_URI": f"sqlite:///{tmp_path}/mlflow.db"}
    for name, value in (store | {"TRACKIO_DIR": tmp_path / "trackio"}).items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.chdir(tmp_path)
    pytest.importorskip(read.__name__, reason=f"pip install {read.__name__} to run it")
    train(config(max_steps=4, report_to=read.__name__, **EVERY_TWO), output=tmp_path / "run")
    values, texts = read(tmp_path)
    curve = [row for row in rows(tmp_path / "run" / METRICS) if row["kind"] == "train"]
    for name in NAMES:
        assert values(f"train/{name}") == [(row["step"], pytest.approx(row[name], rel=1e-5)) for row in curve], name
    assert [step for step, _ in values("eval/halting")] == [2, 4]
    assert len(texts) == 2 and all(text.startswith(HEADER) for text in texts)
    assert texts[0].count("\n") == 1 + trackers.SAMPLES  # the header's line, then one question per line


def test_a_thought_is_the_most_probable_tokens_of_each_latent_with_their_probabilities():
    latents = (Latent((" 3", "*", "+"), (0.64, 0.3, 0.06), 0.8, 0.0), Latent(("36", "-"), (0.62, 0.38), 0.6, 0.9))
    row = trackers.thought_row(Example("How many?", (), "26"), Answer(" 26", latents=latents))
    assert row == ("How many?", "3 0.64 * 0.30 | 36 0.62 - 0.38", "26", "26")
    assert "3 0.64 * 0.30 \\| 36 0.62 - 0.38" in trackers._markdown([row])


@pytest.mark.parametrize(("name", "message"), [("wandb", "pip install wandb"), ("wand", "wand is not supported")])
def test_a_tracker_that_is_not_installed_or_unknown_is_refused(trainer, monkeypatch, name, message):
    monkeypatch.setattr("transformers.integrations.integration_utils.is_wandb_available", lambda: False)
    with pytest.raises(UserError, match=f"training: .*{message}"):
        trainer(report_to=name)
