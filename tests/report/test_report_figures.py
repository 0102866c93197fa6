"""Figures hold what the records say: every number in the axes is a number on record."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest
from figure_toys import RECORDS, folder

from ruplar.errors import UserError
from ruplar.evaluate.record import ABLATION, read_record, read_samples, write_record
from ruplar.report.figures import accuracy, curves, draw_all, style, write_figures
from ruplar.report.material import gather, thoughts
from ruplar.report.rows import collect, domain_of


def test_statistics_of_soft_tokens_count_every_one():
    domain = domain_of(read_record(folder("ruplar")))
    found = thoughts(read_samples(folder("ruplar")), domain, read_samples(folder("backbone")))
    drawing = curves.draw_statistics(found, "RuPLaR")
    top, entropy = drawing.figure.axes
    latents = [z for t in found for z in t.latents]
    for axes in (top, entropy):
        assert sum(bar.get_height() for bar in axes.patches) == len(latents)
    assert top.lines[0].get_xdata()[0] == pytest.approx(np.mean([z.probs[0] for z in latents]))
    assert f"{len(latents):,} soft tokens of {len(found):,} questions" in drawing.caption


def test_the_front_joins_what_nothing_beats(rows):
    base = rows[0]
    # cheap and poor, dear and good, dear and poor, as cheap as the first and better, equal to the second
    table = [(2, 50), (10, 90), (12, 80), (2, 60), (10, 90)]
    made = [replace(base, method=str(i), forwards=f, accuracy=a) for i, (f, a) in enumerate(table)]
    assert [row.method for row in accuracy.frontier(made, "forwards")] == ["3", "1", "4"]
    # each is a hundredth dearer and better: the third beats the second, which beats the first, which is 2 % cheaper
    steps = [replace(base, method=str(i), forwards=100.0 + i, accuracy=50.0 + i) for i in range(3)]
    assert [row.method for row in accuracy.frontier(steps, "forwards")] == ["0", "2"]


def test_only_what_the_intervals_leave_no_doubt_about_is_clearly_on_the_front(rows):
    # the second is better than the first, which is as cheap, but their intervals overlap; the third is clearly better
    table = [("first", 6, 80, 6), ("second", 6, 85, 3), ("third", 26, 99, 1), ("cheapest", 2, 29, 3)]
    made = [
        replace(rows[0], method=name, forwards=f, accuracy=a, low=a - half, high=a + half)
        for name, f, a, half in table
    ]
    assert [row.method for row in accuracy.frontier(made, "forwards")] == ["cheapest", "second", "third"]
    assert [row.method for row in accuracy.clear(made, "forwards")] == ["cheapest", "third"]
    assert "By its mean also second" in accuracy.draw_frontier(made).caption


def test_many_methods_have_a_line_each():
    found = [row for row in collect(RECORDS.parent / "main") if row.benchmark == "word-problems"]
    drawing = accuracy.draw_frontier(found)
    right, cost = drawing.figure.axes
    names = [label.get_text() for label in right.get_yticklabels()]
    assert sorted(names) == sorted(row.method for row in found) and "RuPLaR-Mix" in names
    drawn = dict(zip(names, (bar.get_width() for bar in cost.patches), strict=True))
    assert drawn == {row.method: row.forwards for row in found}


def test_every_method_is_a_point_with_its_interval(rows):
    drawing = accuracy.draw_frontier(rows)
    for axes, cost in zip(drawing.figure.axes, ("forwards", "ms_per_question"), strict=True):
        points = {c.get_label(): c for c in axes.containers}
        assert set(points) == {row.method for row in rows}
        for row in rows:
            line, _, (bar,) = points[row.method].lines
            assert (line.get_xdata()[0], line.get_ydata()[0]) == (getattr(row, cost), row.accuracy)
            [ends] = bar.get_segments()
            assert ends[:, 1] == pytest.approx([row.low, row.high])


def test_milliseconds_of_two_machines_are_not_drawn_side_by_side(rows):
    run = rows[0].runs[0]
    other = run.record.model_copy(update={"machine": run.record.machine.model_copy(update={"cpu": "another"})})
    drawing = accuracy.draw_frontier([replace(rows[0], runs=(replace(run, record=other),)), *rows[1:]])
    assert len(drawing.figure.axes) == 1 and "different machines" in drawing.caption


def test_training_curves_are_the_rows_of_the_file():
    lines = [json.loads(line) for line in (folder("ruplar") / "metrics.jsonl").read_text().splitlines()]
    train = [row for row in lines if row["kind"] == "train"]
    losses, valid = curves.draw_training("embedded-ruplar", lines).figure.axes
    assert [line.get_label() for line in losses.lines] == ["loss", "answer", "prior"]
    assert losses.lines[2].get_xdata().tolist() == [row["step"] for row in train]
    assert losses.lines[2].get_ydata().tolist() == [row["prior"] for row in train]
    accuracies = [100 * row["eval_accuracy"] for row in lines if row["kind"] == "valid"]
    assert valid.lines[0].get_ydata() == pytest.approx(accuracies)


BENCH = {"shape": "embedded", "dtype": "float32", "device": "cpu", "gpu": None, "cpu": "toy", "prompt_tokens": 110, "latents": 3,
         "answer_tokens": 10, "weights_gb": 0.02, "dirty": False}  # fmt: skip


def test_throughput_is_drawn_beside_its_floor_and_the_published_loop():
    by = lambda k: {str(b): k * b for b in (8, 1, 64)}  # noqa: E731
    record = BENCH | {
        "what": "throughput", "questions": 1319, "questions_per_s": by(2), "questions_per_s_p10": by(1), "questions_per_s_p90": by(3),
        "floor_questions_per_s": by(5), "peak_gb_by_batch": {"1": 1.0, "8": None, "64": 2.0}, "published_questions_per_s": 0.5,
    }  # fmt: skip
    [drawing] = curves.draw_bench(record)
    rate, memory = drawing.figure.axes
    lines = {line.get_label(): line for line in rate.lines}
    ours = lines["soft tokens"]
    assert ours.get_xdata().tolist() == [1, 8, 64] and ours.get_ydata().tolist() == [2, 16, 128]
    assert lines["limit of the hardware"].get_ydata().tolist() == [5, 40, 320]
    assert set(lines["published procedure"].get_ydata()) == {0.5}
    assert memory.lines[0].get_xdata().tolist() == [1, 64]  # what was not measured is not drawn


def test_growth_has_a_panel_for_each_thing_that_grows():
    rows = [
        {"vary": vary, "x": x, "ours_ms": x + 1.0, "ours_p10_ms": x, "ours_p90_ms": x + 2, "floor_ms": x / 2, "peak_gb": 0.1 * x}
        for vary in ("latents", "prompt", "batch") for x in (1, 2, 4)
    ]  # fmt: skip
    [drawing] = curves.draw_bench(BENCH | {"what": "growth", "rows": rows})
    for panel in drawing.figure.axes[:3]:
        ours, limit = panel.lines
        assert limit.get_ydata().tolist() == [0.5, 1, 2] and ours.get_ydata().tolist() == [2, 3, 5]
        assert limit.get_label() == "limit of the hardware"
    assert drawing.figure.axes[3].lines[0].get_ydata() == pytest.approx([0.1, 0.2, 0.4])
    written = [row | {"text_ms": 9.0} for row in rows]
    [drawing] = curves.draw_bench(BENCH | {"what": "growth", "rows": written, "cot_tokens": 26})
    labels = [line.get_label() for line in drawing.figure.axes[0].lines]
    assert labels == ["soft tokens", "written chain, same engine", "limit of the hardware"]
    assert "The written chain has 26 tokens." in drawing.caption


def test_the_same_record_gives_the_same_svg_and_matplotlib_is_left_as_it_was(rows):
    import matplotlib

    before = dict(matplotlib.rcParams)
    first, second = accuracy.draw_frontier(rows), accuracy.draw_frontier(rows)
    assert first.svg() == second.svg()
    inline = first.inline()
    ElementTree.fromstring(inline.replace("xlink:", ""))
    assert "http" not in inline and "var(--figure-ink" in inline and 'id="frontier-word-problems-' in inline
    assert dict(matplotlib.rcParams) == before


@pytest.mark.slow
def test_a_folder_of_figures_has_both_forms_and_every_caption(tmp_path):
    drawings = draw_all(gather([RECORDS]))
    names = {d.name for d in drawings}
    assert {"thoughts", "frontier-word-problems"} <= names and len(names) == len(drawings)
    drawings = [d for d in drawings if d.name in ("frontier-word-problems", "training-RuPLaR-seed-777")]
    index = write_figures(drawings, tmp_path / "figures").read_text()
    assert len(drawings) == 2
    for drawing in drawings:
        assert (tmp_path / "figures" / f"{drawing.name}.png").stat().st_size > 10_000
        assert (tmp_path / "figures" / f"{drawing.name}.svg").is_file()
        assert drawing.caption in index and f"({drawing.name}.png)" in index


def test_the_report_package_loads_no_optional_library_and_without_matplotlib_the_way_out_is_told(monkeypatch):
    code = (
        "import sys; import ruplar.report.page, ruplar.report.figures\n"
        "print([m for m in ('torch', 'matplotlib', 'jinja2') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(UserError, match=r"pip install -e '.\[figures\]'.*pip install matplotlib"):
        style.load()


def test_material_finds_benches_and_ablations_and_leaves_dirty_ones_out(tmp_path):
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench" / "latency.json").write_text(json.dumps(BENCH | {"what": "latency"}))
    (tmp_path / "bench" / "dirty.json").write_text(json.dumps(BENCH | {"what": "growth", "dirty": True}))
    (tmp_path / ABLATION).write_text(json.dumps({"word-problems": [{"mode": "real"}]}))
    found = gather([tmp_path])
    assert [b["what"] for b in found.benches] == ["latency"] and list(found.ablations) == ["word-problems"]
    draft = gather([tmp_path], drafts=True)
    assert len(draft.benches) == 2 and draft.drafts == {"the code had uncommitted changes": ["dirty.json"]}


def test_a_studys_ablation_goes_by_its_runs_name_and_needs_a_run(tmp_path):
    rows = [{"mode": "real"}]
    (tmp_path / ABLATION).write_text(json.dumps({"on": "toy", "rows": rows}))
    with pytest.raises(UserError, match="nothing to report"):
        gather([tmp_path])
    write_record(read_record(folder("ruplar")), tmp_path)
    assert gather([tmp_path]).ablations == {"RuPLaR on toy": rows}


def test_a_broken_file_is_named(tmp_path):
    (tmp_path / "x.json").write_text("{")
    with pytest.raises(UserError, match=r"x\.json: not JSON"):
        gather([tmp_path])
    with pytest.raises(UserError, match="no such file"):
        gather([tmp_path / "missing"])
