"""The tables of docs/results.md, baselines.md, speed.md and README.md are those of the records under results/."""

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from cases import cases
from typer.testing import CliRunner

ROOT = Path(__file__).parents[2]
RESULTS, BASELINES, SPEED = (
    (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8") for name in ("results", "baselines", "speed")
)
README = (ROOT / "README.md").read_text(encoding="utf-8")
ROWS = {label: tuple(row) for label, row in cases(__file__, "rows").items()}
QWEN, IN_README, TIMED = (cases(__file__, name) for name in ("larger_backbone", "in_readme", "timed"))
HEADLINE = "method | seeds | GSM8K"
SHARES = "method | reference | GSM8K"


def table(page: str, first: str) -> dict[str, list[str]]:
    """The table whose header starts with these cells: plain label → its other cells."""
    [body] = re.findall(rf"^\| {re.escape(first)}.*\n\|[-:| ]+\|\n((?:\|.*\n)+)", page, re.M)
    rows = [
        [re.sub(r"\*\*| [ᵃᵇᶜᵈ¹²³]", "", cell).strip() for cell in line.split("|")[1:-1]] for line in body.splitlines()
    ]
    return {label: cells for label, *cells in rows}


def columns(page: str, first: str) -> list[str]:
    """Names of the columns after the first of the table whose header starts with these cells."""
    [header] = [line for line in page.splitlines() if line.startswith(f"| {first}")]
    return [cell.strip() for cell in header.split("|")[2:-1]]


@cache
def report(*words: str) -> str:
    """What `ruplar report` prints, in the repository's folder."""
    from ruplar.cli import app

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        made = CliRunner().invoke(app, ["report", *words])
    assert made.exit_code == 0, made.output
    return made.stdout


def reported(study: str, row: str, first: str = HEADLINE) -> list[str]:
    """The cells of a row in a table that `ruplar report` prints."""
    return table(report(f"results/{study}"), first)[row]


@pytest.mark.slow
def test_the_rows_of_the_headline_tables_are_those_of_the_records():
    headline, larger = RESULTS.split("\n## Qwen")
    assert table(headline, HEADLINE) == {label: reported(*ROWS[label]) for label in ROWS}
    assert table(larger, HEADLINE) == {label: reported("qwen-0.5b", label) for label in QWEN}


@pytest.mark.slow
def test_the_percent_of_cot_of_each_set_is_that_of_the_records():
    shown = table(RESULTS, "method | GSM8K | GSM-Hard")
    assert len(shown) > 5 and shown == {label: reported(*ROWS[label], SHARES)[1:] for label in shown}


@pytest.mark.slow
def test_the_table_of_the_readme_is_that_of_the_results():
    rows, headline = table(README, HEADLINE), table(RESULTS.split("\n## Qwen")[0], HEADLINE)
    assert rows.keys() == IN_README.keys()
    for label, (seeds, gsm8k, share, average, latents, forwards, *_) in rows.items():
        made = headline[IN_README[label]]
        assert [seeds, gsm8k, average, forwards] == [*made[:2], made[6], made[8]], label
        written = "written chain" in label
        assert share == ("100" if written else made[2]) and (latents == "–") is written, label
        assert written or float(latents) == pytest.approx(float(made[7]), abs=0.051), label


def test_the_readmes_milliseconds_are_those_of_the_latency_study():
    printed = report("results/latency", "--no-tests")
    measured: dict[str, dict[str, str]] = {}
    for first in ("method | benchmark | n |", "method | benchmark | tokens"):
        for row, cells in table(printed, first).items():
            measured.setdefault(row, {}).update(zip(columns(printed, first), cells, strict=True))
    shown = ("forward passes", "tokens processed", "ms at batch size 1", "ms per question")
    for label, cells in table(SPEED, "model, [record]").items():
        assert cells == [measured[label][name] for name in shown], label
    for label, (*_, alone, batched) in table(README, HEADLINE).items():
        if label not in TIMED:
            assert (alone, batched) == ("–", "–"), label
            continue
        row = measured[TIMED[label]]
        assert float(alone.split()[0]) == round(float(row["ms at batch size 1"]), 1), label
        assert float(batched.split()[0]) == round(float(row["ms per question"]), 2), label


@pytest.mark.slow
def test_the_table_of_the_curves_is_that_of_the_records():
    rows = {
        row["method"]: row
        for row in json.loads(report("results/main-curves", "--json"))
        if row["benchmark"] == "word-problems"
    }
    printed = report("results/main-curves", "--against", "No-CoT max_steps=9800")
    tested = re.findall(
        r"^\| ([^|]+) max_steps=9800 \| No-CoT max_steps=9800 \|.*?\| 1,000 \| ([^|]+) \|", printed, re.M
    )
    picked = json.loads((ROOT / "results" / "main-curves" / "picked.json").read_text(encoding="utf-8"))
    shown = table(RESULTS, "method | 0.2 M | 0.8 M")
    assert shown.keys() == {*(row.partition(" max_steps=")[0] for row in picked), "CoLaR-2"}  # the model of CoLaR-5
    for label, (*accuracies, forwards, difference) in shown.items():
        found = [rows.get(f"{label} max_steps={n}") for n in (800, 3200, 9800, 19600)]
        assert accuracies == [_accuracy(one) if one else "–" for one in found], label
        assert (forwards, difference) == (f"{found[2]['forwards']:.1f}", dict(tested).get(label, "–")), label
    rates = table(BASELINES, "method | rate at")
    assert rates.keys() == shown.keys()
    for label, (chosen, tries) in rates.items():
        trained = "CoLaR-5" if label == "CoLaR-2" else label
        steps = [picked.get(f"{trained}{more}", {"settings": {}, "valid": {}}) for more in ("", " max_steps=9800")]
        used = [one["settings"].get("training.learning_rate") for one in steps]
        assert [float(one) for one in chosen.split(", ")] == list(dict.fromkeys(filter(None, used))), label
        scores = ", ".join(f"{rows[one]['accuracy']:.1f}" for one in sorted(steps[1]["valid"]))
        assert tries == (scores if scores and trained == label else "–"), label
    [readme] = re.findall(r"5M model, 2\.5 M examples: (.*?)\.\s", README)
    named = re.findall(r"([^,]+?) (\d+)(?: %)?(?: \(±\d\))?(?:, |$)", readme)
    for label, percent in [(one, percent) for labels, percent in named for one in labels.split(" and ")]:
        name = {"COCONUT": "COCONUT (all weights)"}.get(label, label)
        assert int(percent) == round(rows[f"{name} max_steps=9800"]["accuracy"]), label


def _accuracy(row: dict[str, Any]) -> str:
    return f"{row['accuracy']:.1f} ±{(row['high'] - row['low']) / 2:.1f}"


def test_the_table_of_soft_and_plain_tokens_is_that_of_the_records():
    found = {row: {} for row in cases(__file__, "softness")}
    for study in ("qwen-0.5b", "main-curves"):
        for row in json.loads(report(f"results/{study}", "--json")):
            for label, (of, benchmark, *pair) in cases(__file__, "softness").items():
                if (of, benchmark) == (study, row["benchmark"]) and row["method"] in pair:
                    found[label][row["method"]] = f"{row['accuracy']:.1f}"
    shown = table(RESULTS, "model | spans | soft")
    assert list(shown) == list(found)
    for label, (_, *_, soft, plain) in cases(__file__, "softness").items():
        assert shown[label][1:3] == [found[label][soft], found[label][plain]], label


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
    assert table(SPEED, "| soft tokens | written chain") == expected


def test_the_profile_and_training_tables_are_those_of_the_records():
    phases = [
        row[phase]
        for row in recorded("nvidia-h200/profile-llama-3.2-1b.json")["rows"]
        for phase in ("prefill", "step")
    ]
    shown = table(SPEED, "| prefill, 1 question | step, 1 slot")
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
    trained = list(table(SPEED, "model, trained, sequences per step").values())
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
    for label, cells in table(SPEED, "model, batch size").items():
        model, batch = label.split(", ")
        record = json.loads((folder / f"models-{CPU[model]}.json").read_text())
        rows = {row["procedure"]: row for row in record["rows"] if row["batch"] == int(batch)}
        for procedure, cell in zip(("ours", "text", "hf_cot"), cells, strict=True):
            row = rows[procedure]
            assert cell.startswith(f"{row['ms']:,.{int(row['ms'] < 20)}f} ms"), label
            assert procedure == "ours" or f"({row['vs_ours']:.1f}×)" in cell, label
            assert " tokens" not in cell or f"{row['tokens']:.0f} tokens" in cell, label
