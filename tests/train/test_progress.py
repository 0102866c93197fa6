"""The progress line, the bar and metrics.jsonl."""

import io
import json
import re

import pytest
from cases import cases

from ruplar.train import METRICS
from ruplar.train.progress import BarProgress, Progress, line, rows, truncate

ROW = cases(__file__, "row")
PARTS = ("answer", "prior", "align")
VALID = {"eval_accuracy": 0.625, "eval_latents": 2.4, "eval_forwards": 5.3, "eval_halting": 0.98}


@pytest.mark.parametrize(
    ("progress", "text"),
    [
        (
            Progress(120, 4500, ROW, PARTS, eta=41 * 60),
            "step 0120/4500   2.7% | loss 0.412 = answer 0.201 + prior 0.180 + align 0.031 "
            "| lr 2.9e-04 | 8,420 tok/s | 11.2 GB | eta 0:41:00",
        ),
        (Progress(1, 10, ROW, ("answer",)), "step 01/10  10.0% | loss 0.412 | lr 2.9e-04 | 8,420 tok/s | 11.2 GB"),
        (
            Progress(50, 100, VALID),
            "step 050/100  50.0% | valid accuracy 62.5% | 2.40 latents | 5.30 forwards | halting 98.0%",
        ),
        (Progress(0, 100), ""),
    ],
    ids=["parts", "one part", "validation", "empty"],
)
def test_a_row_is_one_line(progress, text):
    assert line(progress) == text


def test_rows_beyond_the_resumed_step_and_a_torn_last_line_are_dropped(tmp_path):
    file = tmp_path / METRICS
    file.write_text('{"step": 2}\n{"step": 4}\n{"step": 6}\n{"ste')
    truncate(file, 4)
    assert rows(file) == [{"step": 2}, {"step": 4}]


def test_a_loss_that_is_not_finite_is_written_as_null(trainer, tmp_path):
    made = trainer(max_steps=1, logging_steps=1)
    made.log({"loss": 1.0, "grad_norm": float("nan")})
    text = (tmp_path / "run" / METRICS).read_text()
    assert json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))["grad_norm"] is None


def test_at_80_columns_the_bar_shows_step_times_and_loss_and_prints_validations_above_itself():
    from rich.console import Console

    out = io.StringIO()
    with BarProgress(Console(file=out, force_terminal=True, width=80)) as bar:
        bar(Progress(0, 4500))
        bar(Progress(119, 4500, ROW, PARTS, eta=42 * 60))
        bar(Progress(119, 4500, {"eval_accuracy": 0.5}))
        bar(Progress(120, 4500, eta=41 * 60))  # a step that logs nothing moves the bar and keeps the metrics
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", out.getvalue())
    assert "step 0/? ━━━━━━━━━━━━━━━━━━━━ 0:00:00 loading data and model" in text and "valid accuracy 50.0%" in text
    assert re.search(r"step +120/4500 \S+ 0:0\d:\d\d eta 0:41:00 \| loss 0\.412 = answer", text)
