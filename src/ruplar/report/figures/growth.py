"""A record of `ruplar bench growth` → time against soft tokens, prompt length and batch size, and memory."""

from collections.abc import Mapping, Sequence
from typing import Any

from ruplar.report.figures.style import BLUE, FAINT, GREEN, INK, Drawing, panels, styled

_VARIED = {"latents": "soft tokens", "prompt": "prompt tokens", "batch": "batch size"}


@styled
def draw_growth(record: Mapping[str, Any]) -> Drawing:
    """Draw a panel for each of the three, and one for memory against the batch size."""
    figure, axes = panels(2, 2, 13, 9.6)
    for panel, (vary, label) in zip(axes, _VARIED.items(), strict=False):
        _time(panel, [row for row in record["rows"] if row["vary"] == vary], label)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    batches = [row for row in record["rows"] if row["vary"] == "batch"]
    _memory(axes[3], [row["x"] for row in batches], [row["peak_gb"] for row in batches], record["weights_gb"])
    about = f"{record['shape']}, {record['dtype']}, {record['gpu'] or record['cpu']}"
    figure.suptitle(about, x=0.01, ha="left", fontsize=13)
    written = any("text_ms" in row for row in record["rows"])
    chain = f" The written chain has {record['cot_tokens']} tokens." if written else ""
    caption = (
        f"Time of an answer against the number of soft tokens, the length of the prompt and the batch size (time of the whole "
        f"batch). Otherwise {record['prompt_tokens']} prompt tokens, {record['latents']} soft tokens, {record['answer_tokens']} "
        f"answer tokens, batch size 1.{chain} The shaded band spans the 10th to 90th percentile. The grey area is out of reach of "
        "this hardware: every weight is read once per forward pass at the measured bandwidth, every product takes its time at the "
        "measured FLOP rate. Bottom right: peak memory and the size of the weights."
    )
    return Drawing(f"Scaling of latency and memory, {record['shape']}", caption, figure)


def _time(axes: Any, rows: Sequence[Mapping[str, Any]], label: str) -> None:
    x, floor = [row["x"] for row in rows], [row["floor_ms"] for row in rows]
    if label == "batch size":
        _log_batches(axes, x)
    axes.plot(x, [row["ours_ms"] for row in rows], color=BLUE, marker="o", label="soft tokens")
    if all("text_ms" in row for row in rows):
        axes.plot(x, [row["text_ms"] for row in rows], color=GREEN, marker="s", label="written chain, same engine")
    low, high = [row["ours_p10_ms"] for row in rows], [row["ours_p90_ms"] for row in rows]
    axes.fill_between(x, low, high, color=BLUE, alpha=0.2, linewidth=0)
    axes.set(xlabel=label, ylabel="milliseconds", title=f"Time against {label}")
    axes.fill_between(x, floor, 0, color=FAINT, alpha=0.5, linewidth=0)
    axes.plot(x, floor, color=INK, linestyle="--", label="limit of the hardware")
    axes.set_ylim(bottom=0)


def _log_batches(axes: Any, batches: Sequence[int]) -> None:
    axes.set_xscale("log", base=2)
    axes.set_xticks(batches, [str(b) for b in batches])
    axes.minorticks_off()
    axes.set_xlabel("batch size")


def _memory(axes: Any, batches: Sequence[int], peaks: Sequence[float], weights: float) -> None:
    _log_batches(axes, batches)
    axes.plot(batches, peaks, color=BLUE, marker="o", label="peak memory of soft tokens")
    axes.axhline(weights, color=INK, linestyle="--", label="weights")
    axes.set(ylabel="GB", title="Memory")
    axes.set_ylim(bottom=0)
    axes.legend(loc="best")
