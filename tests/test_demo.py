"""The demo runs from end to end, writes what it says, and keeps its results when it is interrupted."""

import io
import json
import signal

import pytest
from rich.console import Console

from ruplar import runs
from ruplar.demo import DemoSize, _Demo, _interpolate, _train_live, _write_page, run_demo
from ruplar.errors import UserError
from ruplar.evaluate.record import read_samples

TINY = DemoSize(10, 10, ("training.max_steps=3", "data.train.0.count=40", "data.train.1.count=80"))


def test_interpolation_scales_the_adapters_change_and_leaves_the_embedding_rows(tmp_path):
    import torch
    from safetensors.torch import load_file, save_file

    names = ("layers.0.q_proj.lora_A.weight", "layers.0.q_proj.lora_B.weight", "embed_tokens.token_adapter.delta")
    save_file({name: torch.full((2, 2), 4.0) for name in names}, tmp_path / "adapter_model.safetensors")
    _interpolate(tmp_path, 0.75)
    # the change is B·A, so three quarters of B are three quarters of the change
    found = load_file(tmp_path / "adapter_model.safetensors")
    assert [found[name].unique().tolist() for name in names] == [[4.0], [3.0], [4.0]]


def console() -> Console:
    return Console(file=io.StringIO(), width=80)


@pytest.mark.slow
def test_the_demo_shows_thoughts_compares_ablates_and_trains(tmp_path):
    page, folder = console(), tmp_path / "demo"
    found = run_demo(folder, TINY, "cpu", page)
    summary = json.loads((folder / "summary.json").read_text())
    assert summary == found and set(summary) == {"methods", "ablation", "live", "seconds"}
    assert set(summary["methods"]) == {"cot", "no_cot", "ruplar"}
    for name, row in summary["methods"].items():
        assert {"accuracy", "latents", "forwards"} <= set(row) and row["n"] == 10
        assert 0 <= row["accuracy"] <= 100
        assert len(read_samples(folder / name)) == 10 and (folder / name / "run.json").is_file()
    # one soft token per step is shorter than the written chain; no_cot does not think
    methods = summary["methods"]
    assert methods["no_cot"]["latents"] == 0 < methods["ruplar"]["latents"] < methods["cot"]["latents"]
    assert methods["no_cot"]["forwards"] < methods["ruplar"]["forwards"] < methods["cot"]["forwards"]
    assert set(summary["ablation"]) == {"random", "zero", "shuffled", "none", "argmax", "real"}
    assert summary["ablation"]["real"] == methods["ruplar"]["accuracy"]
    assert set(summary["live"]) == {"before", "after", "old_problems_before", "old_problems_after"}
    record = json.loads((folder / "live" / "run.json").read_text())
    assert record["overrides"] == list(TINY.overrides) and record["config"]["training"]["max_steps"] == 3
    text = page.file.getvalue()
    parts = ("1  Thoughts", "2  Comparison", "same 10", "3  Latent ablation", "4  Live training", "z2", "page.html")
    assert all(part in text for part in parts) and "<<" in text
    assert max(len(line) for line in text.splitlines() if not line.startswith("step ")) <= 80

    # the page contains every table and the figure that the demo has data for
    written = (folder / "page.html").read_text()
    assert "Accuracy against cost on word-problems" in written and "Latent ablation" in written
    assert "Thoughts of " in written and "ruplar demo" in written


@pytest.mark.slow
def test_ctrl_c_in_the_training_evaluates_the_model_so_far(tmp_path, monkeypatch):
    plain, pressed = runs.train_and_record, []

    def interrupted(*given, progress, **more):
        def update(row):
            if row.step == 2 and not pressed:
                pressed.append(row.step)
                signal.raise_signal(signal.SIGINT)
            return progress(row)

        return plain(*given, progress=update, **more)

    monkeypatch.setattr(runs, "train_and_record", interrupted)
    for part in ("_show_thoughts", "_compare", "_ablate", "_write_page"):
        monkeypatch.setattr(f"ruplar.demo.{part}", lambda demo: None)
    screen = console()
    size = DemoSize(4, 2, (*TINY.overrides, "training.max_steps=400", "training.logging_steps=1"))
    before = {"methods": {"ruplar": {"accuracy": 50.0, "low": 15.0, "high": 85.0}}}
    demo = _Demo(tmp_path, size, "cpu", screen, summary=before)
    _train_live(demo)
    record = json.loads((tmp_path / "live" / "run.json").read_text())
    assert "Stopped early: the model so far is evaluated." in screen.file.getvalue()
    assert len(record["benchmarks"]) == 2 and (tmp_path / "live" / "model" / "ruplar.json").is_file()


@pytest.mark.slow
def test_an_interrupted_demo_keeps_the_finished_parts(tmp_path, monkeypatch):
    def interrupt(demo):
        raise KeyboardInterrupt

    monkeypatch.setattr("ruplar.demo._train_live", interrupt)
    monkeypatch.setattr("ruplar.demo._write_page", lambda demo: None)
    screen = console()
    found = run_demo(tmp_path / "demo", DemoSize(4, 4), "cpu", screen)
    assert set(found) == {"methods", "ablation", "seconds"}
    assert json.loads((tmp_path / "demo" / "summary.json").read_text()) == found
    text = screen.file.getvalue()
    assert "Interrupted; the results of the finished parts are in the output folder." in text
    assert "summary.json" in text
    assert "live/model" not in text


def test_without_matplotlib_the_demo_says_that_there_is_no_page(tmp_path, monkeypatch):
    from ruplar.report.figures import style

    def missing():
        raise UserError("figures need matplotlib.")

    monkeypatch.setattr(style, "load", missing)
    screen = console()
    _write_page(_Demo(tmp_path, DemoSize(), "cpu", screen, summary={"methods": {}}))
    assert "No page was written: figures need matplotlib." in screen.file.getvalue()
    assert not (tmp_path / "page.html").exists()


@pytest.mark.parametrize("name", ["thesis", "thesis/notes.tex"], ids=["a folder with files", "a file"])
def test_a_folder_that_is_not_a_demos_is_left_alone(tmp_path, name):
    (tmp_path / "thesis").mkdir()
    notes = tmp_path / "thesis" / "notes.tex"
    notes.write_text("years of work")
    with pytest.raises(UserError, match="not an earlier demo's folder. Choose another with --output"):
        run_demo(tmp_path / name, DemoSize(), "cpu", console())
    assert notes.read_text() == "years of work"
