"""The paper's last column: one figure for four benchmarks."""

import json

import pytest
from report_toys import record

from ruplar.evaluate.record import write_record
from ruplar.evaluate.stats import wilson
from ruplar.report.paper import FOUR
from ruplar.report.rows import collect
from ruplar.report.summaries import averages
from ruplar.report.tables import summary_table, tables

SIZES = dict(zip(FOUR, (1000, 400, 500, 100), strict=True))


def write(folder, label, right, seeds=(1,), without=()):
    """Runs that had `right[benchmark][seed's place]` answers right."""
    for i, seed in enumerate(seeds):
        about = record(seed, 1, label, 2, study="toy")
        [one] = about.benchmarks
        asked = [
            one.model_copy(update={"name": name, "n": SIZES[name], "correct": right[name][i], "latents": 1.0 + place})
            for place, name in enumerate(FOUR) if name not in without
        ]  # fmt: skip
        write_record(about.model_copy(update={"benchmarks": asked}), folder / f"{label}-seed{seed}")


def study(folder, reference="text"):
    (folder / "study.json").write_text(json.dumps({"name": "toy", "rows": {}, "reference": reference}))
    return collect(folder)


def shares(*percents):
    return {name: [n * percent // 100] for (name, n), percent in zip(SIZES.items(), percents, strict=True)}


def test_every_benchmark_counts_a_quarter_whatever_its_size(tmp_path):
    write(tmp_path, "text", shares(40, 10, 30, 80))
    write(tmp_path, "soft", shares(20, 5, 30, 65))
    soft, text = averages(study(tmp_path))
    assert (text.accuracy, text.latents, soft.accuracy, soft.seeds) == (40.0, 2.5, 30.0, (1,))
    line, reference = summary_table(study(tmp_path)).lines
    assert line[0] == "soft" and line[6].startswith("30.0 ±") and reference[6].startswith("40.0 ±")
    assert line[-2:] == ("1.00", "7.0"), "of the first set"
    assert tables(study(tmp_path), tests=False)[1].names[-3] == "macro-average"


def test_the_percent_of_cot_is_of_the_first_set_and_of_the_rows_own_reference(tmp_path):
    for label, percent in (("text", 40), ("text twice", 50), ("soft", 20), ("soft twice", 30)):
        write(tmp_path, label, shares(percent, 10, 30, 80))
        for file in tmp_path.glob(f"{label}-seed1/run.json"):
            about = json.loads(file.read_text())
            about["config"] = {"method": {"name": "cot" if "text" in label else "ruplar"}}
            file.write_text(json.dumps(about))
    table = summary_table(study(tmp_path))
    assert table.names[1:5] == ("seeds", "GSM8K", "% of CoT", "GSM-Hard")
    found = {line[0]: line[3] for line in table.lines}
    assert found == {"soft": "50.0", "soft twice": "75.0", "text": "–", "text twice": "125.0"}
    plan = json.loads((tmp_path / "study.json").read_text())
    plan["rows"] = {"soft_twice": {"label": "soft twice", "reference": "text twice"}}
    (tmp_path / "study.json").write_text(json.dumps(plan))
    assert {line[0]: line[3] for line in summary_table(collect(tmp_path)).lines} == found | {"soft twice": "60.0"}


@pytest.mark.parametrize("name", ["valid", "gsm8k-dev", "short-dev", "gsm8k-aug-valid"])
def test_selection_sets_enter_neither_columns_nor_costs(tmp_path, name):
    write(tmp_path, "text", shares(40, 10, 30, 80))
    [file] = tmp_path.glob("text-*/run.json")
    about = json.loads(file.read_text())
    about["benchmarks"].append(about["benchmarks"][0] | {"name": name, "latents": 100.0})
    file.write_text(json.dumps(about))
    table = summary_table(study(tmp_path))
    assert name not in table.names and table.lines[0][-2] == "1.00"
    assert "on GSM8K, as are the forward passes" in table.note
    [selected] = [line for line in tables(study(tmp_path), tests=False)[0].lines if f"{name} (selection)" in line]
    assert "100.00" in selected


def test_a_benchmark_that_was_not_asked_or_other_seeds_make_no_average(tmp_path):
    write(tmp_path, "text", shares(40, 10, 30, 80), without=("svamp",))
    assert averages(study(tmp_path)) == [] and "macro-average" not in summary_table(study(tmp_path)).names
    write(tmp_path, "soft", shares(20, 5, 30, 65))
    write(tmp_path, "soft", shares(20, 5, 30, 65), seeds=(2,), without=("svamp",))
    assert averages(study(tmp_path)) == []


def test_the_interval_is_that_of_all_questions_and_grows_with_the_seeds_scatter(tmp_path):
    write(tmp_path, "even", {name: [n // 2] * 3 for name, n in SIZES.items()}, seeds=(1, 2, 3))
    write(tmp_path, "wild", {name: [n // 4, n // 2, 3 * n // 4] for name, n in SIZES.items()}, seeds=(1, 2, 3))
    even, wild = averages(study(tmp_path))
    # four independent halves: the variance is the mean of p(1 - p)/n over 4
    variance = sum(0.25 / n for n in SIZES.values()) / 16
    assert even.high - even.accuracy == pytest.approx(196.0 * variance**0.5, rel=1e-3)
    assert even.accuracy == wild.accuracy == 50.0
    assert wild.high - wild.low > 5 * (even.high - even.low)
    single = wilson(50, 100)
    assert even.high - even.low < 100 * (single[1] - single[0]), "four benchmarks say more than the smallest alone"
