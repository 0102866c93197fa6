"""Rows with stored samples → a few questions with their soft tokens and the chain a text method wrote, and a figure of them all."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from ruplar.display import latent_line
from ruplar.evaluate.samples import SAMPLES, Sample, read_samples, result_key
from ruplar.report.figures.certainty import draw_certainty
from ruplar.report.figures.style import Drawing
from ruplar.report.rows import Row, Run, by_benchmark, method_of
from ruplar.types import Latent

EXAMPLES = 4


def soft_row(rows: Sequence[Row]) -> Row | None:
    """Choose the row with stored soft tokens whose thoughts are shown: one of the paper's method, else another.

    Of several rows it is the one on the benchmark that most rows share, then the most accurate.
    """

    def rank(row: Row) -> tuple[bool, int, float]:
        return method_of(row) == "ruplar", len(_beside(row, rows)), row.accuracy

    able = [row for row in rows if any(sample.get("latents") for sample in _of(row.runs[0])[:20])]
    return max(able, key=rank, default=None)


def certainty(rows: Sequence[Row]) -> Drawing | None:
    """Draw the certainty of the soft tokens of `soft_row`; None where only those of some answers are stored."""
    best = soft_row(rows)
    samples = _of(best.runs[0]) if best else []
    if best is None or any(len(one["latents"]) != one["latent_count"] for one in samples):
        return None
    return draw_certainty(f"{best.method} on {best.benchmark}", samples)


def thoughts(rows: Sequence[Row]) -> str:
    """Show thoughts of `soft_row` as a block of text; "" where none are stored."""
    best = soft_row(rows)
    if best is None:
        return ""
    written = next((row for row in _beside(best, rows) if method_of(row) == "cot"), None)
    chains = {one["question"]: one for one in _of(written.runs[0]) if one.get("thought")} if written else {}
    shown = [_shown(sample, chains.get(sample["question"])) for sample in pick(_of(best.runs[0]), EXAMPLES)]
    return f"Thoughts of {best.method} on {best.benchmark}:\n\n~~~~text\n" + "\n\n".join(shown) + "\n~~~~\n"


def _beside(row: Row, rows: Sequence[Row]) -> list[Row]:
    return next(group for group in by_benchmark(rows) if row in group)


def pick(samples: Sequence[Sample], count: int) -> list[Sample]:
    """Pick the first right thought of each length from two soft tokens on, shortest first, then the first wrong one."""
    by_length: dict[int, Sample] = {}
    for sample in samples:
        if sample["correct"] and len(sample["latents"]) > 1:
            by_length.setdefault(len(sample["latents"]), sample)
    wrong = [sample for sample in samples if sample["latents"] and not sample["correct"]][:1]
    right = [by_length[length] for length in sorted(by_length)]
    return right[: count - len(wrong)] + wrong


def _shown(sample: Sample, chain: Mapping[str, Any] | None) -> str:
    latents = [Latent(**latent) for latent in sample["latents"]]
    verdict = "correct" if sample["correct"] else f"wrong, the correct answer is {sample['marked']}"
    lines = [
        " ".join(sample["question"].split()),
        *(latent_line(i, latent, len(latents)).plain for i, latent in enumerate(latents, start=1)),
        f"  answer  {sample['text'].strip()} ({verdict}), {sample['forwards']} forward passes",
    ]
    if chain:
        lines.append(f"  chain   {chain['thought'].strip()}, {chain['forwards']} forward passes")
    return "\n".join(lines)


def _of(run: Run) -> list[Sample]:
    return [one for one in _samples(run.folder) if result_key(one, run.result.decoding) == run.result.key]


@lru_cache(maxsize=32)
def _samples(folder: Path) -> list[Sample]:
    return read_samples(folder) if (folder / SAMPLES).is_file() else []
