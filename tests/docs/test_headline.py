"""The headline tables of docs/results.md and README.md are those of the records under results/."""

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
from cases import cases
from typer.testing import CliRunner

ROOT = Path(__file__).parents[2]
RESULTS = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")
SETS = ("gsm8k-aug", "gsm-hard", "svamp", "multiarith")
STUDIES = ("smollm2", "smollm2-baselines", "qwen-0.5b")
ROWS = {label: tuple(row) for label, row in cases(__file__, "rows").items()}
SHARES, IN_README, QWEN, TIMED = (cases(__file__, n) for n in ("shares", "in_readme", "larger_backbone", "timed"))


def table(page: str, first: str) -> dict[str, list[str]]:
    """The table whose header starts with these cells: plain label → its other cells."""
    [body] = re.findall(rf"^\| {re.escape(first)}.*\n\|[-:| ]+\|\n((?:\|.*\n)+)", page, re.M)
    rows = [
        [re.sub(r"\*\*| [ᵃᵇ¹²]", "", cell).strip() for cell in line.split("|")[1:-1]] for line in body.splitlines()
    ]
    return {label: cells for label, *cells in rows}


def columns(page: str, first: str) -> list[str]:
    """Names of the columns after the first of the table whose header starts with these cells."""
    [header] = [line for line in page.splitlines() if line.startswith(f"| {first}")]
    return [cell.strip() for cell in header.split("|")[2:-1]]


FIRST, LARGER = RESULTS.split("\n## A larger backbone")
HEADLINE = table(FIRST, "method | seeds | GSM8K (n = 1,319)")


@pytest.fixture(scope="module")
def records() -> dict[tuple[str, str], dict[str, dict]]:
    """(study, row) → benchmark → what `ruplar report --json` says."""
    found: dict[tuple[str, str], dict[str, dict]] = {}
    for row in json.loads(report(*(f"results/{name}" for name in STUDIES), "--json")):
        found.setdefault((row["study"], row["method"]), {})[row["benchmark"]] = row
    return found


@pytest.fixture(scope="module")
def averages() -> dict[tuple[str, str], str]:
    """(study, row) → macro-average ± half its interval, as `ruplar report` prints it."""
    found = {}
    for study in STUDIES:
        printed = report(f"results/{study}", "--no-tests")
        place = columns(printed, "method | seeds | GSM8K").index("macro-average")
        rows = table(printed, "method | seeds | GSM8K")
        found |= {(study, row): cells[place] for row, cells in rows.items()}
    return found


def report(*words: str) -> str:
    """What `ruplar report` prints, in the repository's folder."""
    from ruplar.cli import app

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        made = CliRunner().invoke(app, ["report", *words])
    assert made.exit_code == 0, made.output
    return made.stdout


def plus_minus(row: dict) -> str:
    return f"{row['accuracy']:.1f} ±{(row['high'] - row['low']) / 2:.1f}"


@pytest.mark.slow
@pytest.mark.parametrize("label", ROWS)
def test_a_row_of_the_headline_is_that_of_its_records(label, records, averages):
    seeds, *cells, average = HEADLINE[label]
    made = records[ROWS[label]]
    assert int(seeds) == len(made["gsm8k-aug"]["seeds"])
    assert cells == [plus_minus(made[name]) for name in SETS]
    assert average == averages[ROWS[label]]


@pytest.mark.parametrize("label", SHARES)
def test_a_share_of_cot_is_the_ratio_of_two_rows(label, records):
    *cells, average = table(RESULTS, "method | GSM8K | GSM-Hard")[label]
    ours, cot = (records[ROWS[name]] for name in SHARES[label])
    for cell, name in zip(cells, SETS, strict=True):
        assert cell == share(ours[name], cot[name])
    ratio = sum(ours[name]["accuracy"] for name in SETS) / sum(cot[name]["accuracy"] for name in SETS)
    assert average.split()[0] == f"{100 * ratio:.1f}"


@pytest.mark.parametrize("label", QWEN)
def test_a_row_of_the_larger_backbone_is_that_of_its_records(label, records, averages):
    seeds, *cells, average, latents = table(LARGER, "method | seeds | GSM8K (n = 1,319)")[label]
    row = ("qwen-0.5b", QWEN[label])
    assert int(seeds) == len(records[row]["gsm8k-aug"]["seeds"])
    assert cells == [plus_minus(records[row][name]) for name in SETS]
    assert average == averages[row]
    # a written chain has tokens instead of latents: "– (26.0 chain tokens)"
    assert float(re.search(r"[\d.]+", latents)[0]) == pytest.approx(records[row]["gsm8k-aug"]["latents"], abs=0.05)


def share(ours: dict, cot: dict) -> str:
    """Delta method on the log ratio: relative standard errors, from the widths of the intervals, add in quadrature."""
    ratio = ours["accuracy"] / cot["accuracy"]
    error = math.hypot(*((row["high"] - row["low"]) / 2 / row["accuracy"] for row in (ours, cot)))
    return f"{100 * ratio:.0f} [{100 * ratio * math.exp(-error):.0f}, {100 * ratio * math.exp(error):.0f}]"


def test_the_table_of_the_readme_is_that_of_the_results():
    rows = table(README, "method | seeds | GSM8K")
    assert rows.keys() == IN_README.keys()
    for label, (seeds, gsm8k, average, *_) in rows.items():
        made = HEADLINE[IN_README[label][0]]
        assert [seeds, gsm8k, average] == [made[0], made[1], made[-1]], label


def test_the_readmes_share_of_cot_is_the_ratio_of_two_macro_averages(records):
    for label, (_, _, _, shown, *_) in table(README, "method | seeds | GSM8K").items():
        ours, cot = (sum(records[ROWS[name]][one]["accuracy"] for one in SETS) for name in IN_README[label])
        assert float(shown) == round(100 * ours / cot, 1), label


def test_the_readmes_milliseconds_are_those_of_the_latency_study():
    printed = report("results/latency", "--no-tests")
    measured: dict[str, dict[str, str]] = {}
    for first in ("method | benchmark | n |", "method | benchmark | tokens"):
        for row, cells in table(printed, first).items():
            measured.setdefault(row, {}).update(zip(columns(printed, first), cells, strict=True))
    shown = ("forward passes", "tokens processed", "ms at batch size 1", "ms per question")
    for label, cells in table(RESULTS, "model, [record]").items():
        assert cells == [measured[label][name] for name in shown], label
    for label, (*_, alone, batched) in table(README, "method | seeds | GSM8K").items():
        if label not in TIMED:
            assert (alone, batched) == ("–", "–"), label
            continue
        row = measured[TIMED[label]]
        assert float(alone.split()[0]) == round(float(row["ms at batch size 1"]), 1), label
        assert float(batched.split()[0]) == round(float(row["ms per question"]), 2), label


def test_the_table_of_the_curves_has_the_best_try_on_validation_of_each_method_and_the_longer_budgets():
    found = json.loads(report("results/main-curves", "--json"))
    rows = {row["method"]: row for row in found if row["benchmark"] == "word-problems"}
    picked = json.loads((ROOT / "results" / "main-curves" / "picked.json").read_text(encoding="utf-8"))
    shown = table(
        re.sub(r"(?m)^  \|", "|", RESULTS), "method | 0.2 M | 0.8 M | 2.5 M | 5 M | seeds | forward passes | rate"
    )
    assert shown.keys() == {*(row.partition(" max_steps=")[0] for row in picked), "CoLaR-2"}  # the model of CoLaR-5
    for label, (few, more, most, twice, seeds, forwards, rates, tries) in shown.items():
        first, longer, longest, last = (rows.get(f"{label} max_steps={n}") for n in (800, 3200, 9800, 19600))
        assert [few, more, twice] == [_accuracy(one) if one else "–" for one in (first, longer, last)], label
        assert [most, int(seeds)] == [_accuracy(longest), len(longest["seeds"])], label
        assert forwards == f"{longest['forwards']:.1f}", label
        trained = "CoLaR-5" if label == "CoLaR-2" else label
        nothing = {"settings": {}, "valid": {}}
        first, again = picked.get(trained, nothing), picked.get(f"{trained} max_steps=9800", nothing)
        chosen = [one["settings"].get("training.learning_rate") for one in (first, again)]
        assert [float(one) for one in rates.split(", ")] == list(dict.fromkeys(filter(None, chosen))), label
        scores = ", ".join(f"{rows[one]['accuracy']:.1f}" for one in sorted(again["valid"]))
        assert tries == (scores if scores and trained == label else "–"), label
    [readme] = re.findall(r"closer settings, 2\.5 M examples: (.*?)\.\s", README)
    for labels, percent in re.findall(r"([^,]+?) (\d+)(?: %| \(82\.5 with CODI's rank\)| \(±\d\))?(?:, |$)", readme):
        for label in labels.split(" and "):
            name = {"COCONUT": "COCONUT (all weights)"}.get(label, label)
            assert int(percent) == round(rows[f"{name} max_steps=9800"]["accuracy"]), label


def _accuracy(row: dict[str, Any]) -> str:
    return f"{row['accuracy']:.1f} ±{(row['high'] - row['low']) / 2:.1f}"


def recorded(name: str) -> Any:
    return json.loads((ROOT / "results" / "bench" / name).read_text(encoding="utf-8"))


def test_the_engine_table_is_that_of_the_records():
    one = recorded("nvidia-h200/latency-llama-3.2-1b.json")
    many = recorded("nvidia-h200/throughput-llama-3.2-1b.json")
    expected = {
        "one question": [
            f"{one['ours_ms']:.1f} ms",
            f"{one['text_ms']:.1f} ms ({one['vs_text']:.1f}×)",
            f"{one['floor_ms']:.1f} ms (we take {one['vs_floor']:.2f}×)",
        ]
    }
    for label, slots, reach in (("64 at a time", "64", "we reach "), ("1,319 at once", "1319", "")):
        rates = [many[name][slots] for name in ("questions_per_s", "text_questions_per_s", "floor_questions_per_s")]
        ours, text, floor = (f"{rate:,.0f}" for rate in rates)
        ratio, share = many["vs_text_by_batch"][slots], 100 * rates[0] / rates[2]
        expected[f"{label}, questions per s"] = [ours, f"{text} ({ratio:.2f}×)", f"{floor} ({reach}{share:.0f} %)"]
    assert table(RESULTS, "| soft tokens | written chain") == expected


def test_the_profile_and_training_tables_are_those_of_the_records():
    phases = [
        row[phase]
        for row in recorded("nvidia-h200/profile-llama-3.2-1b.json")["rows"]
        for phase in ("prefill", "step")
    ]
    shown = table(RESULTS, "| prefill, 1 question | step, 1 slot")
    for kind, names in {
        "matrix products": ("products of our kernels", "products of cuBLAS"),
        "attention": ("attention",),
        "norms, rotation, SiLU": ("norms", "rotation, SiLU"),
        "decision, copies, other": ("decision", "copies", "other"),
    }.items():
        sums = [sum(phase["by_kind"].get(name, {"ms": 0})["ms"] for name in names) for phase in phases]
        assert shown[kind] == [_milliseconds(ms) for ms in sums], kind
    many = recorded("nvidia-h200/throughput-llama-3.2-1b.json")
    read, multiplied = many["bandwidth_gb_s"] * 1e6, many["matmul_tflops"] * 1e9  # per millisecond
    weights, head = many["weights_gb"] * 1e9, 128256 * 2048  # bytes, weights
    cached = 2 * 16 * 8 * 64 * 2  # bytes per position
    prefill = 2 * 64 * ((weights / 2 - head) * 111 + head) / multiplied
    floors = [weights / read, weights / read, prefill, (weights + 64 * 112 * cached) / read]
    times = zip(phases, floors, strict=True)
    assert shown["time (floor)"] == [f"{_milliseconds(p['ms'])} ({_milliseconds(floor)})" for p, floor in times]
    trained = list(table(RESULTS, "model, trained, sequences per step").values())
    names = ("llama-3.2-1b", "llama-3.2-1b-128", "qwen2.5-0.5b", "smollm2-135m")
    for cells, name in zip(trained, names, strict=True):
        record = recorded(f"nvidia-h200/train-{name}.json")
        ms, peak = record["ours_ms"], record["peak_gb"]
        expected = [f"{ms:.3g}", f"{record['tokens_per_s']:,.0f}", f"{100 * record['mfu']:.0f} %", f"{peak:.1f}"]
        assert [float(cells[1]), *cells[2:5]] == [float(expected[0]), *expected[1:]], name


def _milliseconds(value: float) -> str:
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def test_the_memory_of_streamed_data_is_that_of_the_record():
    page = (ROOT / "docs" / "scale.md").read_text(encoding="utf-8")
    rows, shown = recorded("stream-data.json"), table(page, "chains in Parquet shards")
    expected = {f"{row['rows']:,}": [f"{row['anonymous_mb']:,.0f} MB", f"{row['files_mb']:,.0f} MB"] for row in rows}
    assert {count: cells[1:] for count, cells in shown.items()} == expected
    few, many = (
        f"{row['anonymous_mb']:,.0f} MB with {row['rows']:,}" for row in recorded("stream-data-datasets.json")
    )
    assert f"takes {few} rows and {many}." in page


CPU = {"5M": "embedded", "SmolLM2 (released)": "smollm2-135m", "SmolLM2 (question once)": "smollm2-135m-question-once"}


def test_the_cpu_table_is_that_of_the_records():
    folder = ROOT / "results" / "bench" / "amd-epyc-2-cores"
    for label, cells in table(RESULTS, "model, batch size").items():
        model, batch = label.split(", ")
        record = json.loads((folder / f"models-{CPU[model]}.json").read_text())
        rows = {row["procedure"]: row for row in record["rows"] if row["batch"] == int(batch)}
        for procedure, cell in zip(("ours", "text", "hf_cot"), cells, strict=True):
            row = rows[procedure]
            assert cell.startswith(f"{row['ms']:,.{int(row['ms'] < 20)}f} ms"), label
            assert procedure == "ours" or f"({row['vs_ours']:.1f}×)" in cell, label
            assert " tokens" not in cell or f"{row['tokens']:.0f} tokens" in cell, label


def test_soft_tokens_and_forward_passes_of_the_readme_are_means_over_the_four_sets(records):
    for label, (*_, latents, forwards, _, _) in table(README, "method | seeds | GSM8K").items():
        made = records[ROWS[IN_README[label][0]]]
        mean = {what: sum(made[name][what] for name in SETS) / 4 for what in ("latents", "forwards")}
        assert forwards == f"{mean['forwards']:.1f}", label
        assert latents == "–" or float(latents) == pytest.approx(mean["latents"], abs=0.05), label


ABLATED = {
    "RuPLaR-plan": "RuPLaR-plan",
    "RuPLaR-plan, soup (released)": "RuPLaR-plan, model soup of 3 seeds",
    "RuPLaR-plus, one soft token per operation": "RuPLaR-plus, one soft token per operation",
    "CoLaR-2": "CoLaR-2",
}
MODES = ("real", "none", "random", "shuffled", "zero", "argmax")


@pytest.mark.parametrize("label", ABLATED)
def test_a_row_of_the_latent_ablation_is_the_mean_over_its_seeds(label):
    seeds, *cells = table(RESULTS, "method | seeds | real")[label]
    study, row = ROWS[ABLATED[label]]
    found = [
        file.with_name("ablation.json") for file in (ROOT / "results" / study).glob("*/run.json") if named(file) == row
    ]
    modes = [{one["mode"]: one["accuracy"] for one in json.loads(file.read_text())["rows"]} for file in found]
    assert len(modes) == int(seeds)
    for mode, cell in zip(MODES, cells, strict=True):
        shown = "–" if mode not in modes[0] else f"{sum(one[mode] for one in modes) / len(modes):.1f}"
        assert cell.split(" ±")[0] == shown, mode


def named(file: Path) -> str:
    return json.loads(file.read_text(encoding="utf-8"))["name"]
