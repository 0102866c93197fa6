"""Learning curves: which rows are one method at several budgets, and whether it still improves."""

import math
from dataclasses import replace

import pytest
from figure_toys import RECORDS, variant

from ruplar.report.budgets import curves, curves_table
from ruplar.report.figures import draw
from ruplar.report.rows import collect
from ruplar.report.sets import VALID


@pytest.fixture(scope="module")
def rows():
    base = replace(next(row for row in collect(RECORDS) if row.method == "RuPLaR"), study="toy")

    def at(name, steps, accuracy):  # intervals are -2 and +1: half of their width is 1.5
        training = {**base.runs[0].record.config["training"], "max_steps": steps, "per_device_train_batch_size": 256}
        row = variant(base, f"{name} max_steps={steps}", accuracy)
        record = row.runs[0].record
        record = record.model_copy(update={"config": {**record.config, "training": training}})
        return replace(row, runs=(replace(row.runs[0], record=record),))

    made = [at("Slow", 3200, 60.0), at("Slow", 800, 40.0), at("Done", 800, 90.0), at("Done", 3200, 91.0)]
    made.append(at("Once", 800, 10.0))
    tried = replace(at("Slow try learning_rate=0.1", 800, 5.0), method="Slow try learning_rate=0.1")
    return [*made, tried, replace(made[0], benchmark=VALID)]


def test_a_curve_is_one_method_at_several_budgets_in_examples(rows):
    [group] = curves(rows)
    found = {curve.method: [(seen, row.accuracy) for seen, row in curve.points.items()] for curve in group}
    assert found == {"Slow": [(204_800, 40.0), (819_200, 60.0)], "Done": [(204_800, 90.0), (819_200, 91.0)]}, (
        "tries, single budgets and the selection set are no curves"
    )


def test_a_curve_has_points_of_one_study_and_backbone(rows):
    others = [replace(row, backbone="other") for row in rows]
    first, second = curves([*rows, *others])
    assert {row.backbone for curve in second for row in curve.points.values()} == {"other"}
    assert [curve.points for curve in first] == [curve.points for curve in curves(rows)[0]]
    assert curves_table(second).title == "Learning curves on word-problems, other"


def test_a_method_still_improves_when_a_doubling_gains_more_than_its_interval(rows):
    slow, done = curves(rows)[0]
    # two doublings: 20 / 2 and 1 / 2 points; half of the interval is 1.5 times the root of 2, over 2
    assert slow.gain == pytest.approx((10.0, 0.75 * math.sqrt(2))) and slow.trend == "yes"
    assert done.gain == pytest.approx((0.5, 0.75 * math.sqrt(2))) and done.trend == "no"
    fell, unclear = (
        replace(done, points={1: replace(done.last, low=90.0 - half, high=90.0 + half, accuracy=90.0), 2: last})
        for half, last in ((1.5, replace(done.last, accuracy=50.0)), (30.0, done.last))
    )
    assert (fell.trend, unclear.trend) == ("fell", "unclear")


def test_the_table_and_the_figure_say_who_has_stopped(rows):
    table = curves_table(curves(rows)[0])
    assert table.names[2:4] == ("0.2 M", "0.8 M")
    assert [(line[0], line[2], *line[-2:]) for line in table.lines] == [
        ("Slow", "40.0 ±1.5", "+10.0 ±1.1", "yes"),
        ("Done", "90.0 ±1.5", "+0.5 ±1.1", "no"),
    ]
    drawing = draw(rows, grid=False)
    seen, cost = drawing.figure.axes
    assert [line.get_label() for line in seen.containers] == ["Done", "Slow"], "the most accurate first"
    assert seen.containers[0].lines[0].get_xdata().tolist() == [204_800, 819_200]
    assert [name.get_text() for name in cost.get_yticklabels()] == ["Done  91.0 %", "Slow  60.0 %"]
    assert [bar.get_width() for bar in cost.patches] == [rows[0].forwards] * 2
    assert cost.get_xlabel().startswith("forward passes") and "doubling (Done)" in drawing.caption
    assert "By its mean also" not in drawing.caption and "by the intervals: Done." in drawing.caption
