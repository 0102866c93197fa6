"""Benchmark results → a flat JSON record with stable keys, and a table for the terminal."""

from pathlib import Path
from typing import Any

import torch
import yaml
from rich.table import Table

from ruplar.evaluate.record import commit_of, machine, versions

KEYS: dict[str, list[str]] = yaml.safe_load(Path(__file__).with_name("keys.yaml").read_text(encoding="utf-8"))
"""Stable keys of each record; its other keys describe how it was measured."""


TITLES = {"ours": "soft tokens", "text": "written chain, same engine", "hf_cot": "written chain, HF generate"}
VS_WRITTEN = "vs written (floor)"  # in brackets the ratio of an engine at the floor


def about(what: str, shape: str, device: str, dtype: str) -> dict[str, Any]:
    """Return the fields that describe what was measured, on which machine, with which code."""
    on_gpu = torch.device(device).type == "cuda"
    gpu = torch.cuda.get_device_name(device) if on_gpu else None
    here = machine(gpu)
    commit, dirty = commit_of()
    return {
        "what": what,
        "shape": shape,
        "device": torch.device(device).type,
        "dtype": dtype,
        "gpu": gpu,
        "cpu": here.cpu,
        "cores": here.cores,
        "threads": torch.get_num_threads(),
        **versions(),
        "commit": commit,
        "dirty": dirty,
    }


def ratio(above: float | None, below: float | None) -> float | None:
    """Return above / below; None where either is unknown."""
    return None if above is None or not below else above / below


def ordered(record: dict[str, Any]) -> dict[str, Any]:
    """Return the record with its stable keys first."""
    return {**{key: record[key] for key in KEYS[record["what"]]}, **record}


def table(record: dict[str, Any]) -> Table:
    """Return a table of the measurements, their spread and the comparison."""
    threads = record["threads"]
    place = record["gpu"] or f"{record['cpu']}, {threads} thread{'s' * (threads > 1)}"
    found = Table(title=f"{record['what']} · {record['shape']} · {record['dtype']} · {place}", title_justify="left")
    _ROWS[record["what"]](found, record)
    return found


def _columns(found: Table, *names: str) -> None:
    for i, name in enumerate(names):
        found.add_column(name, justify="left" if i == 0 else "right")


def _latency(found: Table, r: dict[str, Any]) -> None:
    _columns(found, "per question", "ms", "p10 – p90", "vs ours", "forwards", "tokens", "peak GB")
    ours, text = ((str(r[f"{name}forwards"]), str(r[f"{name}tokens"])) for name in ("", "text_"))
    names = {
        "ours": (TITLES["ours"], *ours),
        "text": (TITLES["text"], *text),
        "hf_cot": (TITLES["hf_cot"], *text),
        "published": ("published procedure", "", ""),
        "floor": ("floor of soft tokens", *ours),
        "text_floor": ("floor of a written chain", *text),
    }
    for key, (title, *cost) in names.items():
        if f"{key}_ms" not in r:  # older records lack the last one
            continue
        spread = f"{_n(r[f'{key}_p10_ms'])} – {_n(r[f'{key}_p90_ms'])}" if f"{key}_p10_ms" in r else ""
        peak = _n(r["peak_gb"] if key == "ours" else r.get(f"{key}_peak_gb"))
        found.add_row(title, _n(r[f"{key}_ms"]), spread, f"{r[f'{key}_ms'] / r['ours_ms']:.3g}×", *cost, peak)
    found.caption = (
        f"weights {r['weights_gb']:.3g} GB · {r['bandwidth_gb_s']:.4g} GB/s · {r['matmul_tflops']:.3g} TFLOP/s"
    )


def _throughput(found: Table, r: dict[str, Any]) -> None:
    _columns(found, "batch", "questions/s", "p10 – p90", "written chain", VS_WRITTEN, "% of floor", "peak GB")
    low, high = r["questions_per_s_p10"], r["questions_per_s_p90"]
    for batch, rate in r["questions_per_s"].items():
        text, at_floor = r["text_questions_per_s"][batch], r.get("floor_vs_text_by_batch", {}).get(batch)
        share = rate / r["floor_questions_per_s"][batch]
        cells = (_n(rate), f"{_n(low[batch])} – {_n(high[batch])}", _n(text), _versus(rate / text, at_floor))
        found.add_row(batch, *cells, f"{share:.0%}", _n(r["peak_gb_by_batch"][batch]))
    found.caption = (
        f"{r['questions']:,} questions with GSM8K's prompt lengths; {r['tokens']} tokens a question, written {r['text_tokens']}; on "
        f"{r['published_sample']} of them: written chain, HF generate {_n(r['hf_cot_questions_per_s'])}/s, "
        f"published procedure {_n(r['published_questions_per_s'])}/s"
    )


def _models(found: Table, r: dict[str, Any]) -> None:
    _columns(found, "per question", "batch", "ms", "vs ours", "CPU ms", "vs ours", "forwards", "tokens")
    for row in r["rows"]:
        times = (_n(row["ms"]), f"{row['vs_ours']:.3g}×", _n(row["cpu_ms"]), f"{row['cpu_vs_ours']:.3g}×")
        cost = (f"{row['forwards']:.1f}", f"{row['tokens']:.0f}")
        found.add_row(TITLES[row["procedure"]], str(row["batch"]), *times, *cost)
    found.caption = (
        f"{r['questions']} questions of {r['on']}; text model {r['text_model']}; load average {_n(r['load_average'])}"
    )


def _train(found: Table, r: dict[str, Any]) -> None:
    _columns(found, "per step", "ms", "p10 – p90", "vs ours", "peak GB", "tokens/s")
    for key, title in {"ours": "ours", "published": "dense priors, full logits"}.items():
        if key == "published" and not r["published_fits"]:
            found.add_row(title, "not measured" if r["published_fits"] is None else "out of memory", "", "", "", "")
            continue
        rate = r["tokens_per_s" if key == "ours" else "published_tokens_per_s"]
        spread = f"{_n(r[f'{key}_p10_ms'])} – {_n(r[f'{key}_p90_ms'])}"
        peak = r["peak_gb" if key == "ours" else "published_peak_gb"]
        found.add_row(
            title, _n(r[f"{key}_ms"]), spread, f"{r[f'{key}_ms'] / r['ours_ms']:.3g}×", _n(peak), f"{rate:,.0f}"
        )
    found.caption = f"batch {r['batch']}, trains {r['trains']}, MFU {r['mfu']:.1%} of {r['matmul_tflops']:.3g} TFLOP/s"


def _growth(found: Table, r: dict[str, Any]) -> None:
    _columns(
        found, "varied", "value", "ms", "p10 – p90", "written chain ms", VS_WRITTEN, "floor ms", "vs floor", "peak GB"
    )
    for row in r["rows"]:
        spread = f"{_n(row['ours_p10_ms'])} – {_n(row['ours_p90_ms'])}"
        written = (_n(row["text_ms"]), _versus(row["text_ms"] / row["ours_ms"], row.get("floor_vs_text")))
        floor = (_n(row["floor_ms"]), f"{row['vs_floor']:.3g}×")
        found.add_row(row["vary"], str(row["x"]), _n(row["ours_ms"]), spread, *written, *floor, _n(row["peak_gb"]))


def _agreement(found: Table, r: dict[str, Any]) -> None:
    _columns(found, "dtype", "slots", "questions", "same answer", "same tokens", "max logit difference")
    for row in r["rows"]:
        shares = [f"{100 * row[key]:.1f}%" for key in ("same", "same_tokens")]
        found.add_row(
            row["dtype"], str(row["slots"]), str(row["questions"]), *shares, f"{row['largest_logit_difference']:.2g}"
        )


_ROWS = {
    "latency": _latency,
    "throughput": _throughput,
    "train": _train,
    "growth": _growth,
    "agreement": _agreement,
    "models": _models,
}


def _versus(measured: float, at_floor: float | None) -> str:
    return f"{measured:.3g}×" + ("" if at_floor is None else f" ({at_floor:.3g}×)")


def _n(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
