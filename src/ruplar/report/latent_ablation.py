"""The ablations beside a study's runs → a table: what is left of each method when its latents are replaced.

    results/STUDY/LABEL-seedN/ablation.json     one line a mode: real, none, random, shuffled, zero, argmax

A cell is the mean over seeds with its 95 % interval, for both kinds of chance as in the table of results. Methods without
latents have none.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ruplar.errors import UserError
from ruplar.evaluate.stats import over_seeds
from ruplar.report.rows import Row

FILE = "ablation.json"
Shares = dict[str, list[float]]
"""Mode → share of right answers, one a seed."""


@dataclass(frozen=True)
class LatentAblation:
    """One method of a study.

    Attributes:
        on: The questions.
        n: How many.
        modes: Mode → mean, low and high, in percent.
    """

    study: str
    method: str
    on: str
    n: int
    seeds: int
    modes: dict[str, tuple[float, float, float]]


def replaced(rows: Sequence[Row]) -> list[LatentAblation]:
    """One for every method of a study whose runs all have an ablation; a row's benchmark does not matter.

    Raises:
        UserError: A file cannot be read, or seeds of one method were ablated on different questions or in other modes.
    """
    found = {}
    for row in rows:
        files = [run.folder / FILE for run in row.runs]
        if row.study and (row.study, row.method) not in found and files and all(file.is_file() for file in files):
            found[row.study, row.method] = _pooled(row, files)
    return list(found.values())


def _pooled(row: Row, files: Sequence[Path]) -> LatentAblation:
    asked, shares = set(), Shares()
    for file in files:
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
            asked.add((content["on"], *(line["n"] for line in content["rows"][:1])))
            for line in content["rows"]:
                shares.setdefault(line["mode"], []).append(line["correct"] / line["n"])
        except (ValueError, KeyError, TypeError, ZeroDivisionError) as error:
            raise UserError(
                f"{file}: is no ablation ({error!r}); `ruplar study` writes it anew when it is gone."
            ) from None
    if len(asked) != 1 or {len(values) for values in shares.values()} != {len(files)}:
        raise UserError(f"'{row.method}': its seeds were ablated on different questions or in different modes.")
    [(on, n)] = asked
    modes = {}
    for mode, values in shares.items():
        mean, (low, high) = over_seeds(values, n)
        modes[mode] = (100 * mean, 100 * low, 100 * high)
    return LatentAblation(row.study, row.method, on, n, len(files), modes)
