"""Averages over the four benchmarks: one line a method, from all studies of a backbone."""

from __future__ import annotations

from dataclasses import replace

from figure_toys import RECORDS

from ruplar.report.figures import draw_averages
from ruplar.report.paper import FOUR
from ruplar.report.rows import collect
from ruplar.report.summaries import averages


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
    [drawing] = draw_averages(made)
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
    assert draw_averages([row for row in made if row.study == "one"]) == []  # two lines are no picture
