"""`training.report_to`: what a tracker gets, read back from TensorBoard's event file."""

import pytest

from ruplar.errors import UserError
from ruplar.train import METRICS, trackers
from ruplar.train.progress import rows
from ruplar.train.run import train
from ruplar.types import Answer, Example, Latent


def test_tensorboard_gets_the_loss_parts_the_metrics_and_sample_thoughts(config, tmp_path):
    event_accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    settings = {"valid": True, "eval_strategy": "steps", "eval_steps": 2, "save_strategy": "no"}
    train(config(max_steps=4, report_to="tensorboard", **settings), output=tmp_path / "run")
    [file] = (tmp_path / "run" / "runs").rglob("events.out.tfevents.*")
    found = event_accumulator.EventAccumulator(str(file))
    found.Reload()
    curve = [row for row in rows(tmp_path / "run" / METRICS) if row["kind"] == "train"]
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
