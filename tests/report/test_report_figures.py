"""Figures hold what the records say: every number in the axes is a number on record."""

import subprocess
import sys
from dataclasses import replace

import pytest
from figure_toys import RECORDS

from ruplar.errors import UserError
from ruplar.report.figures import accuracy, draw, style
from ruplar.report.paper import FOUR
from ruplar.report.rows import collect
from ruplar.report.summaries import averages


def test_the_front_joins_what_nothing_beats(rows):
    base = rows[0]
    # cheap and poor, dear and good, dear and poor, as cheap as the first and better, equal to the second
    table = [(2, 50), (10, 90), (12, 80), (2, 60), (10, 90)]
    made = [replace(base, method=str(i), forwards=f, accuracy=a) for i, (f, a) in enumerate(table)]
    assert [row.method for row in accuracy.frontier(made)] == ["3", "1", "4"]
    # each is a hundredth dearer and better: the third beats the second, which beats the first, which is 2 % cheaper
    steps = [replace(base, method=str(i), forwards=100.0 + i, accuracy=50.0 + i) for i in range(3)]
    assert [row.method for row in accuracy.frontier(steps)] == ["0", "2"]


def test_only_what_the_intervals_leave_no_doubt_about_is_clearly_on_the_front(rows):
    # the second is better than the first, which is as cheap, but their intervals overlap; the third is clearly better
    table = [("first", 6, 80, 6), ("second", 6, 85, 3), ("third", 26, 99, 1), ("cheapest", 2, 29, 3)]
    made = [replace(rows[0], method=m, forwards=f, accuracy=a, low=a - h, high=a + h) for m, f, a, h in table]
    assert [row.method for row in accuracy.frontier(made)] == ["cheapest", "second", "third"]
    assert [row.method for row in accuracy.clear(made)] == ["cheapest", "third"]
    assert "By its mean also second" in accuracy.draw_frontier(made).caption


def test_every_method_has_a_line_with_its_interval_and_its_cost(rows):
    right, cost = accuracy.draw_frontier(rows).figure.axes
    names = [label.get_text() for label in right.get_yticklabels()]
    drawn = {}
    for name, container, bar in zip(names, right.containers, cost.patches, strict=True):
        point, _, (error,) = container.lines
        [ends] = error.get_segments()
        drawn[name] = (point.get_xdata()[0], *ends[:, 0], bar.get_width())
    wanted = {row.method: (row.accuracy, row.low, row.high, row.forwards) for row in rows}
    assert drawn == {name: pytest.approx(values) for name, values in wanted.items()}


def test_macro_averages_have_a_line_each():
    base = replace(collect(RECORDS)[0], study="toy", backbone="b")
    table = {"text": (80, 25), "soft": (60, 6), "long": (70, 11), "slow": (50, 12)}
    made = [
        replace(base, method=method, benchmark=name, accuracy=mean + 2 * i - 3, forwards=cost)
        for method, (mean, cost) in table.items()
        for i, name in enumerate(FOUR)
    ]
    drawing = draw(made, grid=False)
    right, cost = drawing.figure.axes
    assert [label.get_text() for label in right.get_yticklabels()] == ["slow", "soft", "long", "text"]
    assert [c.lines[0].get_xydata()[0].tolist() for c in right.containers] == [[50, 0], [60, 1], [70, 2], [80, 3]]
    assert [bar.get_width() for bar in cost.patches] == [12, 6, 11, 25]
    assert "clearly on it, by the intervals: soft, long, text." in drawing.caption
    low, high = right.get_xlim()
    assert low == 0 and high >= max(a.high for a in averages(made))
    two = [row for row in made if row.method in ("text", "soft")]
    assert draw(two, grid=False) is None, "two lines are no picture"


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
