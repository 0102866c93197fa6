"""Figures hold what the records say: every number in the axes is a number on record."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest
from figure_toys import RECORDS

from ruplar.errors import UserError
from ruplar.report.figures import accuracy, draw_averages, style
from ruplar.report.paper import FOUR
from ruplar.report.rows import collect
from ruplar.report.summaries import averages


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


def test_averages_of_several_studies_share_a_picture_a_line_each():
    base = replace(collect(RECORDS)[0], backbone="b")
    table = {
        ("one", "text"): (80, 25), ("one", "soft"): (60, 6), ("two", "soft"): (60, 6), ("two", "long"): (70, 11),
        ("two", "slow"): (50, 12), ("three", "slow"): (55, 12),
    }  # fmt: skip
    made = [
        replace(base, study=study, method=method, benchmark=name, accuracy=mean + 2 * i - 3, forwards=cost)
        for (study, method), (mean, cost) in table.items()
        for i, name in enumerate(FOUR)
    ]
    drawing = draw_averages(made)
    right, cost = drawing.figure.axes
    names = [label.get_text() for label in right.get_yticklabels()]
    assert names == [
        "slow (two)",
        "slow (three)",
        "soft",
        "long",
        "text",
    ]  # a record that two studies share is one line
    points = [c.lines[0].get_xydata()[0].tolist() for c in right.containers]
    assert points == [[50, 0], [55, 1], [60, 2], [70, 3], [80, 4]]
    assert [bar.get_width() for bar in cost.patches] == [12, 12, 6, 11, 25]
    assert (
        "clearly on it, by the intervals: soft, long, text." in drawing.caption
        and "studies one, two, three" in drawing.caption
    )
    low, high = right.get_xlim()
    assert low == 0 and high >= max(a.high for a in averages(made))
    assert draw_averages([row for row in made if row.study == "one"]) is None  # two lines are no picture


def test_the_same_record_gives_the_same_image_and_matplotlib_is_left_as_it_was(rows):
    import matplotlib

    before = dict(matplotlib.rcParams)
    assert accuracy.draw_frontier(rows).png() == accuracy.draw_frontier(rows).png()
    assert dict(matplotlib.rcParams) == before


def test_the_report_package_loads_no_optional_library_and_without_matplotlib_the_way_out_is_told(monkeypatch):
    code = "import sys; import ruplar.report.page\nprint([m for m in ('torch', 'matplotlib', 'jinja2') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(UserError, match=r"pip install -e '.\[figures\]'.*pip install matplotlib"):
        style.load()
