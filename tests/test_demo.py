"""The demo runs from end to end and leaves what it says it leaves."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from ruplar.errors import UserError

SHORT = ["training.max_steps=3"]


def console() -> Console:
    return Console(file=io.StringIO(), width=120)


@pytest.mark.slow
def test_the_demo_compares_ablates_trains_and_shows_thoughts(tmp_path):
    from ruplar.demo import run_demo
    from ruplar.evaluate.record import read_samples

    page, folder = console(), tmp_path / "demo"
    found = run_demo(folder, 20, "cpu", page, SHORT)
    summary = json.loads((folder / "summary.json").read_text())
    assert summary == found and set(summary) == {"methods", "ablation", "live", "seconds"}
    assert set(summary["methods"]) == {"cot", "no_cot", "ruplar"}
    for name, row in summary["methods"].items():
        assert {"accuracy", "latents", "forwards"} <= set(row) and row["n"] == 20
        assert 0 <= row["accuracy"] <= 100
        assert len(read_samples(folder / name)) == 20 and (folder / name / "run.json").is_file()
    # a soft token stands for a step, so it thinks in fewer than the chain's own tokens; no_cot does not think
    methods = summary["methods"]
    assert methods["no_cot"]["latents"] == 0 < methods["ruplar"]["latents"] < methods["cot"]["latents"]
    assert methods["no_cot"]["forwards"] < methods["ruplar"]["forwards"] < methods["cot"]["forwards"]
    assert set(summary["ablation"]) == {"random", "zero", "shuffled", "none", "argmax", "real"}
    assert summary["ablation"]["real"] == methods["ruplar"]["accuracy"]
    assert {"before", "after", "old_problems_after"} <= set(summary["live"])
    record = json.loads((folder / "live" / "run.json").read_text())
    assert record["overrides"] == SHORT and record["config"]["training"]["max_steps"] == 3
    text = page.file.getvalue()
    assert all(
        part in text for part in ("1  The same 20", "2  Do the soft", "3  3 thoughts", "4  Live training", "z2")
    )

    # the page holds every table and figure the demo has something for
    written = (folder / "page.html").read_text()
    assert "Accuracy against cost on word-problems" in written and "Do the soft tokens matter" in written
    assert "One thought, soft token by soft token" in written and "ruplar demo" in written
    assert (folder / "figures" / "thought.png").is_file() and "page.html" in text

    # an earlier demo's folder is replaced, and the model it trained is one
    from ruplar.model.store import find_model

    assert find_model(folder / "live") == folder / "live" / "model"


def test_without_matplotlib_the_demo_says_that_it_leaves_the_page_out(tmp_path, monkeypatch):
    from ruplar.demo import _Demo, _write_page
    from ruplar.report.figures import style

    def missing():
        raise UserError('figures need matplotlib: pip install "ruplar[figures]".')

    monkeypatch.setattr(style, "load", missing)
    screen = console()
    _write_page(_Demo(tmp_path, 20, "cpu", screen))
    assert (
        "No page and no figures were written" in screen.file.getvalue() and "ruplar[figures]" in screen.file.getvalue()
    )
    assert not (tmp_path / "page.html").exists()


def test_a_folder_that_is_not_a_demos_is_left_alone(tmp_path):
    from ruplar.demo import run_demo

    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(UserError, match="not an earlier demo's folder. Choose another with --output"):
        run_demo(tmp_path, 20, "cpu", console())
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


def test_a_file_where_the_folder_should_be_is_refused(tmp_path):
    from ruplar.demo import run_demo

    (tmp_path / "demo").write_text("a file")
    with pytest.raises(UserError, match="demo"):
        run_demo(tmp_path / "demo", 20, "cpu", console())
