"""Records of trainings, soft tokens and benches → figures: training curves, certainty of soft tokens, speed and memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ruplar.report.figures.accuracy import slug
from ruplar.report.figures.style import BLUE, FAINT, GREEN, INK, MARKERS, MUTED, RED, SERIES, Drawing, panels, styled
from ruplar.report.material import Thought, share_of_results_on_top

ABOUT = {
    "answer": "cross-entropy of the answer",
    "prior": "divergence of each soft token from its prior",
    "align": "alignment of soft tokens with the question",
}
"""Loss part that is drawn → what it is."""
LEAST = 50
_LIMIT = (
    "The grey area is out of reach of this hardware: every weight is read once per forward pass at the measured bandwidth, "
    "every product takes its time at the measured FLOP rate."
)
_VARIED = {"latents": "soft tokens", "prompt": "prompt tokens", "batch": "batch size"}


@styled
def draw_training(name: str, rows: Sequence[Mapping[str, Any]]) -> Drawing:
    """Draw the loss and, where it was measured, validation accuracy."""
    steps = [row for row in rows if row["kind"] == "train" and isinstance(row.get("loss"), int | float)]
    valid = [row for row in rows if "eval_accuracy" in row]
    figure, axes = panels(1, 2 if valid else 1, 13 if valid else 8, 4.8)
    parts = [part for part in ABOUT if steps and part in steps[0]]
    _losses(axes[0], steps, parts)
    if valid:
        _accuracy(axes[1], valid)
    figure.suptitle(name, x=0.01, ha="left", fontsize=13)
    return Drawing(f"training-{slug(name)}", f"Training of {name}", _training_caption(parts, bool(valid)), figure)


def _training_caption(parts: Sequence[str], valid: bool) -> str:
    named = ", ".join(f"{part} ({ABOUT[part]})" for part in parts)
    split = f" The loss is the weighted sum of its parts: {named}." if len(parts) > 1 else ""
    right = " Right: accuracy on held-out questions, in percent." if valid else ""
    return f"Training loss per step, on a logarithmic scale; lower is better.{split}{right}"


def _losses(axes: Any, rows: Sequence[Mapping[str, Any]], parts: Sequence[str]) -> None:
    x = [row["step"] for row in rows]
    axes.plot(x, [row["loss"] for row in rows], color=INK, linewidth=3, label="loss")
    for i, part in enumerate(parts if len(parts) > 1 else ()):
        values = [row[part] if row[part] > 0 else float("nan") for row in rows]
        axes.plot(x, values, color=SERIES[i % len(SERIES)], linestyle=("-", "--", "-.", ":")[i % 4], label=part)
    axes.set_yscale("log")
    axes.set(xlabel="step", ylabel="loss, nats", title="Loss" + (" and its parts" if len(parts) > 1 else ""))
    axes.legend(loc="best")


def _accuracy(axes: Any, rows: Sequence[Mapping[str, Any]]) -> None:
    y = [100 * row["eval_accuracy"] for row in rows]
    axes.plot([row["step"] for row in rows], y, color=BLUE, marker=MARKERS[0], clip_on=False)
    axes.annotate(
        f"{y[-1]:.1f} %", (rows[-1]["step"], y[-1]), (-8, -20), textcoords="offset points", ha="right", color=MUTED
    )
    axes.set(xlabel="step", ylabel="accuracy, %", ylim=(0, 100), title="Held-out questions")
    axes.set_xlim(left=0)


@styled
def draw_statistics(found: Sequence[Thought], about: str) -> Drawing:
    """Draw how certain the soft tokens of many questions are: top probability and entropy."""
    figure, (top, entropy) = panels(1, 2, 13, 5.2)
    every = [z for thought in found for z in thought.latents]
    probs, entropies = [z.probs[0] for z in every], [z.entropy for z in every]
    _histogram(top, probs, 1.0, "probability of the most likely token")
    _histogram(entropy, entropies, max(1.0, *entropies), "entropy in nats (0: a single token)")
    figure.suptitle(about, x=0.01, ha="left", fontsize=13)
    hits, known = share_of_results_on_top([t for t in found if t.correct])
    missed, known_wrong = share_of_results_on_top([t for t in found if not t.correct])
    caption = (
        f"All {len(every):,} soft tokens of {len(found):,} questions. Left: probability of the most likely token (mean "
        f"{np.mean(probs):.2f}). Right: entropy of the distribution (mean {np.mean(entropies):.2f} nats); 0 is a single token, "
        "1.6 is five equally likely ones."
    )
    if known:
        caption += (
            f" Where the written step is known, the most likely token is its result in {hits:,} of {known:,} soft tokens of "
            f"questions answered correctly, and in {missed:,} of {known_wrong:,} of those answered incorrectly."
        )
    return Drawing("thoughts", "Soft tokens of many questions", caption, figure)


def _histogram(axes: Any, values: Sequence[float], most: float, label: str) -> None:
    axes.hist(values, bins=np.linspace(0, most, 26), color=BLUE, edgecolor="white", linewidth=0.6)
    axes.axvline(float(np.mean(values)), color=INK, linestyle="--", linewidth=1.6, label=f"mean {np.mean(values):.2f}")
    axes.set(xlabel=label, ylabel="soft tokens", xlim=(0, most))
    axes.grid(axis="x", visible=False)
    axes.legend()


def draw_bench(record: Mapping[str, Any]) -> list[Drawing]:
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
    rate.plot(batches, ours, color=BLUE, marker="o", label="soft tokens")
    rate.fill_between(batches, low, high, color=BLUE, alpha=0.2, linewidth=0)
    if "text_questions_per_s" in record:  # not in records of earlier versions
        text = [record["text_questions_per_s"][b] for b in x]
        rate.plot(batches, text, color=GREEN, marker="s", label="written chain, same engine")
    rate.axhline(record["published_questions_per_s"], color=RED, linestyle="-.", label="published procedure")
    rate.set(yscale="log", ylabel="questions per second", title="Throughput")
    _limit(rate, batches, floor, 2 * max(floor))
    figure.legend(*rate.get_legend_handles_labels(), loc="outside lower center", ncols=4)
    _memory(memory, batches, [record["peak_gb_by_batch"][b] for b in x], record["weights_gb"])
    figure.suptitle(_place(record), x=0.01, ha="left", fontsize=13)
    caption = (
        f"Questions per second against batch size, on {record['questions']:,} prompts with the lengths of GSM8K's test set. The "
        f"published procedure answers one at a time ({record['published_questions_per_s']:.3g} per second). The shaded band spans "
        f"the 10th to 90th percentile. {_LIMIT} Right: peak memory at each batch size."
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
        panel.plot(x, [row["ours_ms"] for row in rows], color=BLUE, marker="o", label="soft tokens")
        if all("text_ms" in row for row in rows):
            panel.plot(
                x, [row["text_ms"] for row in rows], color=GREEN, marker="s", label="written chain, same engine"
            )
        low, high = [row["ours_p10_ms"] for row in rows], [row["ours_p90_ms"] for row in rows]
        panel.fill_between(x, low, high, color=BLUE, alpha=0.2, linewidth=0)
        panel.set(xlabel=label, ylabel="milliseconds", title=f"Time against {label}")
        _limit(panel, x, [row["floor_ms"] for row in rows], 0)
        panel.set_ylim(bottom=0)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    batches = [row for row in record["rows"] if row["vary"] == "batch"]
    _memory(axes[3], [row["x"] for row in batches], [row["peak_gb"] for row in batches], record["weights_gb"])
    figure.suptitle(_place(record), x=0.01, ha="left", fontsize=13)
    written = any("text_ms" in row for row in record["rows"])
    chain = f" The written chain has {record['cot_tokens']} tokens." if written else ""
    caption = (
        f"Time of an answer against the number of soft tokens, the length of the prompt and the batch size (time of the whole "
        f"batch). Otherwise {record['prompt_tokens']} prompt tokens, {record['latents']} soft tokens, {record['answer_tokens']} "
        f"answer tokens, batch size 1.{chain} The shaded band spans the 10th to 90th percentile. {_LIMIT} Bottom right: peak memory "
        "and the size of the weights."
    )
    return Drawing(_name(record), f"Scaling of latency and memory, {record['shape']}", caption, figure)


def _limit(axes: Any, x: Sequence[float], limit: Sequence[float], end: float) -> None:
    """Draw a limit of the hardware: a line, and in grey what lies beyond it, as far as `end`."""
    axes.fill_between(x, limit, end, color=FAINT, alpha=0.5, linewidth=0)
    axes.plot(x, limit, color=INK, linestyle="--", label="limit of the hardware")


def _log_batches(axes: Any, batches: Sequence[int]) -> None:
    axes.set_xscale("log", base=2)
    axes.set_xticks(batches, [str(b) for b in batches])
    axes.minorticks_off()
    axes.set_xlabel("batch size")


def _memory(axes: Any, batches: Sequence[int], peaks: Sequence[float | None], weights: float) -> None:
    _log_batches(axes, batches)
    known = [(b, p) for b, p in zip(batches, peaks, strict=True) if p is not None]
    if known:
        axes.plot(*zip(*known, strict=True), color=BLUE, marker="o", label="peak memory of soft tokens")
    axes.axhline(weights, color=INK, linestyle="--", label="weights")
    axes.set(ylabel="GB", title="Memory")
    axes.set_ylim(bottom=0)
    axes.legend(loc="best")
