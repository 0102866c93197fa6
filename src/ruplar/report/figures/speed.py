"""`ruplar bench … --json` records → speed and memory figures, with the hardware's lower bound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ruplar.report.figures.accuracy import slug
from ruplar.report.figures.style import BLUE, GREEN, INK, RED, Drawing, panels, styled

_FLOOR = (
    "The floor is the hardware's lower bound: every weight read once per forward pass at the measured bandwidth, every product "
    "at the measured FLOP rate."
)
_VARIED = {"latents": "soft tokens", "prompt": "prompt tokens", "batch": "batch size"}


def draw(record: Mapping[str, Any]) -> list[Drawing]:
    """Draw a bench record; [] for kinds without a figure."""
    kinds = {"throughput": _throughput, "growth": _growth}
    return [kinds[record["what"]](record)] if record["what"] in kinds else []


def _place(record: Mapping[str, Any]) -> str:
    return f"{record['shape']}, {record['dtype']}, {record['gpu'] or record['cpu']}"


def _name(record: Mapping[str, Any]) -> str:
    return f"{record['what']}-{slug(record['shape'])}-{slug(record['gpu'] or record['device'])}".lower()


@styled
def _throughput(record: Mapping[str, Any]) -> Drawing:
    figure, (rate, memory) = panels(1, 2, 13, 5.2)
    batches = sorted(map(int, record["questions_per_s"]))
    x = [str(b) for b in batches]
    ours, low, high, floor = (
        [record[name][b] for b in x]
        for name in ("questions_per_s", "questions_per_s_p10", "questions_per_s_p90", "floor_questions_per_s")
    )
    _log_batches(rate, batches)
    rate.plot(batches, floor, color=INK, linestyle="--", label="floor")
    rate.plot(batches, ours, color=BLUE, marker="o", label="ours")
    rate.fill_between(batches, low, high, color=BLUE, alpha=0.2, linewidth=0)
    rate.axhline(record["published_questions_per_s"], color=RED, linestyle="-.", label="published procedure")
    rate.set(yscale="log", ylabel="questions per second", title="Throughput")
    rate.legend()
    _memory(memory, batches, [record["peak_gb_by_batch"][b] for b in x], record["weights_gb"])
    figure.suptitle(_place(record), x=0.01, ha="left", fontsize=13)
    caption = (
        f"Questions per second against batch size, on {record['questions']:,} prompts with the lengths of GSM8K's test set. The "
        f"published procedure answers one at a time ({record['published_questions_per_s']:.3g} per second). The shaded band spans "
        f"the 10th to 90th percentile. {_FLOOR} Right: peak memory at each batch size."
    )
    return Drawing(_name(record), f"Throughput, {record['shape']}", caption, figure)


@styled
def _growth(record: Mapping[str, Any]) -> Drawing:
    figure, axes = panels(2, 2, 13, 9.6)
    for panel, (vary, label) in zip(axes, _VARIED.items(), strict=False):
        rows = [row for row in record["rows"] if row["vary"] == vary]
        x = [row["x"] for row in rows]
        if vary == "batch":
            _log_batches(panel, x)
        panel.plot(x, [row["floor_ms"] for row in rows], color=INK, linestyle="--", label="floor")
        panel.plot(x, [row["ours_ms"] for row in rows], color=BLUE, marker="o", label="ours")
        low, high = [row["ours_p10_ms"] for row in rows], [row["ours_p90_ms"] for row in rows]
        panel.fill_between(x, low, high, color=BLUE, alpha=0.2, linewidth=0)
        panel.set(xlabel=label, ylabel="milliseconds", title=f"Time against {label}")
        panel.set_ylim(bottom=0)
        panel.legend(loc="upper left")
    batches = [row for row in record["rows"] if row["vary"] == "batch"]
    _memory(axes[3], [row["x"] for row in batches], [row["peak_gb"] for row in batches], record["weights_gb"])
    figure.suptitle(_place(record), x=0.01, ha="left", fontsize=13)
    caption = (
        f"Time of an answer against the number of soft tokens, the length of the prompt and the batch size (time of the whole "
        f"batch). Otherwise {record['prompt_tokens']} prompt tokens, {record['latents']} soft tokens, {record['answer_tokens']} "
        f"answer tokens, batch size 1. The shaded band spans the 10th to 90th percentile. {_FLOOR} Bottom right: peak memory "
        "and the size of the weights."
    )
    return Drawing(_name(record), f"Scaling of latency and memory, {record['shape']}", caption, figure)


def _log_batches(axes: Any, batches: Sequence[int]) -> None:
    axes.set_xscale("log", base=2)
    axes.set_xticks(batches, [str(b) for b in batches])
    axes.minorticks_off()
    axes.set_xlabel("batch size")


def _memory(axes: Any, batches: Sequence[int], peaks: Sequence[float | None], weights: float) -> None:
    _log_batches(axes, batches)
    known = [(b, p) for b, p in zip(batches, peaks, strict=True) if p is not None]
    if known:
        axes.plot(*zip(*known, strict=True), color=GREEN, marker="s", label="peak memory")
    axes.axhline(weights, color=INK, linestyle="--", label="weights")
    axes.set(ylabel="GB", title="Memory")
    axes.set_ylim(bottom=0)
    axes.legend(loc="best")
