"""Figures hold what the records say: every number in the axes is a number on record."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest
from figure_toys import RECORDS, folder

from ruplar.errors import UserError
from ruplar.evaluate.record import read_record, read_samples, write_record
from ruplar.report import material
from ruplar.report.figures import accuracy, draw_all, speed, style, thought, training, write_figures
from ruplar.report.material import gather
from ruplar.report.rows import collect, domain_of
from ruplar.report.thoughts import pick, thoughts


@pytest.fixture(scope="module")
def found():
    domain = domain_of(read_record(folder("ruplar")))
    return thoughts(read_samples(folder("ruplar")), domain, read_samples(folder("backbone")))


@pytest.fixture(scope="module")
def rows():
    return collect(RECORDS)


def bubbles_of(axes):
    """(step, rank) → area and face colour of each bubble of the chart, ranks counted from the top."""
    made = {}
    for dot in axes.collections:
        [(x, y)] = dot.get_offsets()
        made[round(x), thought.BUBBLES - round(y) + 1] = (
            float(dot.get_sizes()[0]),
            tuple(dot.get_facecolors()[0][:3]),
        )
    return made


def test_the_largest_bubble_of_a_solved_example_is_each_steps_result(found):
    from matplotlib.colors import to_rgb

    one = pick(found)
    assert one.correct and one.results and len(one.latents) >= 3
    bubbles = bubbles_of(thought.draw_thought(one).figure.axes[3])
    for step, (latent, result) in enumerate(zip(one.latents, one.results, strict=True), start=1):
        largest = max((rank for s, rank in bubbles if s == step), key=lambda rank: bubbles[step, rank][0])
        assert latent.tokens[largest - 1].strip() == result
        area, colour = bubbles[step, largest]
        assert colour == pytest.approx(to_rgb(style.ORANGE))
        # areas are in proportion to probability: the first two of each step
        assert bubbles[step, 2][0] / area == pytest.approx(latent.probs[1] / latent.probs[0])


def test_the_other_three_panels_hold_the_thoughts_own_numbers(found):
    one = pick(found, least=4)
    heat, trend, sums, _ = thought.draw_thought(one).figure.axes[:4]
    grid = heat.collections[0].get_array().reshape(thought.RANKS, len(one.latents))
    assert grid[:, 1].tolist() == pytest.approx(list(one.latents[1].probs[: thought.RANKS]))
    assert [t.get_text() for t in heat.texts[:10]] == [style.show_token(t) for t in one.latents[0].tokens[:10]]
    assert trend.lines[0].get_ydata().tolist() == [z.probs[0] for z in one.latents]
    assert [a.get_text().split("\n")[0] for a in trend.texts] == [z.tokens[0].strip() for z in one.latents]
    assert [len(line.get_ydata()) for line in sums.lines] == [thought.RANKS] * len(one.latents)
    assert sums.lines[2].get_ydata() == pytest.approx(np.cumsum(one.latents[2].probs[: thought.RANKS]))
    assert trend.get_xticklabels()[0].get_text().split("\n") == ["z1", *_parts(one.steps[0])]


def _parts(step):
    before, _, after = step.rpartition("=")
    return [before, f"={after}"]


def test_a_thought_nobody_marked_has_no_orange_and_says_so(found):
    from matplotlib.colors import to_rgb

    one = replace(pick(found), steps=(), results=None)
    drawing = thought.draw_thought(one)
    bubbles = bubbles_of(drawing.figure.axes[3])
    assert all(colour != pytest.approx(to_rgb(style.ORANGE)) for _, colour in bubbles.values())
    assert "largest bubble is" not in drawing.caption


def test_batch_statistics_count_every_soft_token(found):
    drawing = thought.draw_statistics(found)
    top, entropy, scatter, tokens = drawing.figure.axes
    latents = [z for t in found for z in t.latents]
    assert (
        sum(bar.get_height() for bar in top.patches)
        == sum(bar.get_height() for bar in entropy.patches)
        == len(latents)
    )
    assert top.lines[0].get_xdata()[0] == pytest.approx(np.mean([z.probs[0] for z in latents]))
    right, wrong = (len(c.get_offsets()) for c in scatter.collections)
    assert right == sum(len(t.latents) for t in found if t.correct) and right + wrong == len(latents)
    assert tuple(scatter.collections[0].get_offsets()[0]) == (
        found[0].latents[0].entropy,
        found[0].latents[0].probs[0],
    )
    wanted = Counter(z.tokens[0] for z in latents).most_common(20)
    assert [bar.get_width() for bar in tokens.patches] == [count for _, count in wanted]
    assert f"{len(latents):,} soft tokens of {len(found):,} questions" in drawing.caption


def test_statistics_of_few_questions_are_refused(found):
    with pytest.raises(UserError, match="at least 50 questions, got 49"):
        thought.draw_statistics(found[:49])


def test_the_front_joins_what_nothing_beats(rows):
    base = rows[0]
    # cheap and poor, dear and good, dear and poor, as cheap as the first and better, equal to the second
    table = [(2, 50), (10, 90), (12, 80), (2, 60), (10, 90)]

    made = [
        replace(base, method=str(i), forwards=f, accuracy=a, low=a - 1, high=a + 1) for i, (f, a) in enumerate(table)
    ]
    assert [row.method for row in accuracy.frontier(made, "forwards")] == ["3", "1", "4"]
    # each is a hundredth dearer and better: the third beats the second, which beats the first, which is 2 % cheaper
    steps = [replace(base, method=str(i), forwards=100.0 + i, accuracy=50.0 + i) for i in range(3)]
    assert [row.method for row in accuracy.frontier(steps, "forwards")] == ["0", "2"]


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
        low, high = axes.get_ylim()
        assert low <= min(row.low for row in rows) and high >= max(row.high for row in rows)


def test_milliseconds_of_two_machines_are_not_drawn_side_by_side(rows):
    run = rows[0].runs[0]
    other = run.record.model_copy(update={"machine": run.record.machine.model_copy(update={"cpu": "another"})})
    mixed = [replace(rows[0], runs=(replace(run, record=other),)), *rows[1:]]
    drawing = accuracy.draw_frontier(mixed)
    assert len(drawing.figure.axes) == 1 and "different machines" in drawing.caption


def test_the_parts_of_a_loss_are_those_that_add_up():
    rows = [{"kind": "train", "step": s, "loss": 3.0, "grad_norm": 1.0, "learning_rate": 0.1, "answer": 1.0, "prior": 2.0, "entropy": 0.0}
            for s in (1, 2)]  # fmt: skip
    assert training.parts_of(rows) == ("answer", "prior")
    assert training.parts_of([rows[0] | {"loss": 9.0}]) == ()
    assert training.parts_of([]) == ()


def test_training_curves_are_the_rows_of_the_file():
    lines = [json.loads(line) for line in (folder("ruplar") / "metrics.jsonl").read_text().splitlines()]
    train = [row for row in lines if row["kind"] == "train"]
    losses, valid = training.draw("embedded-ruplar", lines).figure.axes
    assert [line.get_label() for line in losses.lines] == ["loss", "answer", "prior"]
    assert losses.lines[2].get_xdata().tolist() == [row["step"] for row in train]
    assert losses.lines[2].get_ydata().tolist() == [row["prior"] for row in train]
    assert valid.lines[0].get_ydata() == pytest.approx(
        [100 * r["eval_accuracy"] for r in lines if r["kind"] == "valid"]
    )


BENCH = {"shape": "embedded", "dtype": "float32", "device": "cpu", "gpu": None, "cpu": "toy", "prompt_tokens": 110, "latents": 3,
         "answer_tokens": 10, "cot_tokens": 26, "weights_gb": 0.02, "dirty": False}  # fmt: skip


def test_throughput_is_drawn_beside_its_floor_and_the_published_loop():
    by = lambda k: {str(b): k * b for b in (8, 1, 64)}  # noqa: E731
    record = BENCH | {
        "what": "throughput", "questions": 1319, "questions_per_s": by(2), "questions_per_s_p10": by(1), "questions_per_s_p90": by(3),
        "floor_questions_per_s": by(5), "peak_gb_by_batch": {"1": 1.0, "8": None, "64": 2.0}, "published_questions_per_s": 0.5,
    }  # fmt: skip
    rate, memory = speed.draw(record).figure.axes
    lines = {line.get_label(): line for line in rate.lines}
    assert lines["ours"].get_xdata().tolist() == [1, 8, 64] and lines["ours"].get_ydata().tolist() == [2, 16, 128]
    assert lines["floor"].get_ydata().tolist() == [5, 40, 320]
    assert set(lines["published procedure"].get_ydata()) == {0.5}
    assert memory.lines[0].get_xdata().tolist() == [1, 64]  # what was not measured is not drawn
    assert set(memory.lines[1].get_ydata()) == {0.02}


def test_growth_has_a_panel_for_each_thing_that_grows():
    rows = [
        {"vary": vary, "x": x, "ours_ms": x + 1.0, "ours_p10_ms": x, "ours_p90_ms": x + 2, "floor_ms": x / 2, "peak_gb": 0.1 * x}
        for vary in ("latents", "prompt", "batch") for x in (1, 2, 4)
    ]  # fmt: skip
    axes = speed.draw(BENCH | {"what": "growth", "rows": rows}).figure.axes
    for panel in axes[:3]:
        floor, ours = panel.lines
        assert floor.get_ydata().tolist() == [0.5, 1, 2] and ours.get_ydata().tolist() == [2, 3, 5]
    assert axes[3].lines[0].get_ydata() == pytest.approx([0.1, 0.2, 0.4])


def test_latency_has_a_bar_for_each_way_that_was_timed():
    record = BENCH | {"what": "latency", "ours_ms": 2.0, "ours_p10_ms": 1.5, "ours_p90_ms": 3.0, "published_ms": 9.0, "published_p10_ms": 8.0,
                      "published_p90_ms": 10.0, "hf_cot_ms": None, "floor_ms": 1.0}  # fmt: skip
    [axes] = speed.draw(record).figure.axes
    assert [bar.get_width() for bar in axes.patches] == [2.0, 9.0, 1.0]
    assert [t.get_text() for t in axes.get_yticklabels()] == ["ours", "published procedure", "floor"]


def test_an_ablation_has_a_bar_for_each_mode():
    modes = [{"mode": m, "about": "…", "n": 400, "accuracy": a, "low": a - 1, "high": a + 1, "difference": d}
             for m, a, d in (("real", 96.0, None), ("zero", 1.0, -95.0))]  # fmt: skip
    [axes] = accuracy.draw_ablation("word-problems", modes).figure.axes
    assert [bar.get_width() for bar in axes.patches] == [96.0, 1.0]
    assert axes.get_xlim() == pytest.approx((0, 112))


def test_low_bars_of_an_ablation_get_the_whole_width():
    modes = [{"mode": m, "about": "…", "n": 400, "accuracy": a, "low": 0.0, "high": a + 3, "difference": d}
             for m, a, d in (("real", 17.0, None), ("zero", 0.0, -17.0))]  # fmt: skip
    [axes] = accuracy.draw_ablation("gsm8k-aug", modes).figure.axes
    assert axes.get_xlim() == pytest.approx((0, 22.4))


def test_tokens_are_labels_and_never_mathematics():
    assert [style.show_token(t) for t in (" 12", " ", "$x$", "incomprehensible")] == ["12", "␣", r"\$x\$", "incompr…"]


def test_the_same_record_gives_the_same_svg_and_it_parses(rows):
    first, second = accuracy.draw_frontier(rows), accuracy.draw_frontier(rows)
    assert first.svg() == second.svg()
    ElementTree.fromstring(first.svg())
    inline = first.inline()
    ElementTree.fromstring(inline.replace("xlink:", ""))
    assert "http" not in inline and "var(--figure-ink" in inline and 'id="frontier-word-problems-' in inline
    assert first.png().startswith(b"\x89PNG")


def test_a_folder_of_figures_has_both_forms_and_every_caption(tmp_path):
    drawings = draw_all(gather([RECORDS]))
    names = {d.name for d in drawings}
    assert {"thought", "thoughts", "frontier-word-problems"} <= names and len(names) == len(drawings)
    drawings = [d for d in drawings if d.name in ("frontier-word-problems", "training-RuPLaR-seed-777")]
    index = write_figures(drawings, tmp_path / "figures").read_text()
    assert len(drawings) == 2
    for drawing in drawings:
        assert (tmp_path / "figures" / f"{drawing.name}.png").stat().st_size > 10_000
        assert (tmp_path / "figures" / f"{drawing.name}.svg").is_file()
        assert drawing.caption in index and f"({drawing.name}.png)" in index
        assert len(drawing.caption.split()) > 20, "a caption explains what is seen"


def test_colours_can_be_told_apart_by_everyone():
    # Okabe and Ito's palette; relative luminances differ, so that even grey prints keep neighbours apart
    from matplotlib.colors import to_rgb

    grey = [0.2126 * r + 0.7152 * g + 0.0722 * b for r, g, b in map(to_rgb, style.SERIES[:2])]
    assert abs(grey[0] - grey[1]) > 0.2 and len(set(style.MARKERS)) == len(style.MARKERS)


def test_drawing_leaves_matplotlib_as_it_was(rows):
    import matplotlib

    before = dict(matplotlib.rcParams)
    accuracy.draw_frontier(rows).png()
    assert dict(matplotlib.rcParams) == before


def test_without_matplotlib_the_way_out_is_told():
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "from ruplar.errors import UserError\nfrom ruplar.report.figures import style\n"
        "try: style.load()\nexcept UserError as e: print(e)"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "pip install -e '.[figures]'" in told and "pip install jinja2 matplotlib" in told


def test_the_report_package_needs_neither_torch_nor_matplotlib_to_be_imported():
    code = (
        "import sys; import ruplar.report.page, ruplar.report.figures\n"
        "print([m for m in ('torch', 'matplotlib', 'jinja2') if m in sys.modules])"
    )
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
    )


def test_material_finds_benches_and_ablations_and_leaves_dirty_ones_out(tmp_path):
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench" / "latency.json").write_text(json.dumps(BENCH | {"what": "latency"}))
    (tmp_path / "bench" / "dirty.json").write_text(json.dumps(BENCH | {"what": "growth", "dirty": True}))
    (tmp_path / material.ABLATION).write_text(json.dumps({"word-problems": [{"mode": "real"}]}))
    found = gather([tmp_path])
    assert [b["what"] for b in found.benches] == ["latency"] and list(found.ablations) == ["word-problems"]
    draft = gather([tmp_path], drafts=True)
    assert len(draft.benches) == 2 and draft.drafts == {"the code had uncommitted changes": ["dirty.json"]}


def test_a_studys_ablation_goes_by_its_runs_name_and_needs_a_run(tmp_path):
    rows = [{"mode": "real"}]
    (tmp_path / material.ABLATION).write_text(json.dumps({"on": "toy", "rows": rows}))
    with pytest.raises(UserError, match="nothing to report"):
        gather([tmp_path])
    write_record(read_record(folder("ruplar")), tmp_path)
    assert gather([tmp_path]).ablations == {"RuPLaR on toy": rows}


def test_an_empty_folder_and_a_broken_file_are_named(tmp_path):
    with pytest.raises(UserError, match="nothing to report"):
        gather([tmp_path])
    (tmp_path / "x.json").write_text("{")
    with pytest.raises(UserError, match=r"x\.json: not JSON"):
        gather([tmp_path])
    with pytest.raises(UserError, match="no such file"):
        gather([tmp_path / "missing"])
