"""Replace the samples of runs by their outcomes (right or wrong per question), so that results can be committed.

    python benchmarks/compact_results.py results/STUDY ...

Paired tests and intervals stay the same. The text of answers and the latents are deleted: keep the samples of runs whose
thoughts a figure or model card shows.
"""

from __future__ import annotations

import sys
from pathlib import Path

from ruplar import io
from ruplar.evaluate.samples import OUTCOMES, SAMPLES, ResultKey, Sample, read_samples, result_key, write_questions


def compact(folder: Path) -> bool:
    """Replace a run's samples by its outcomes; returns False where it has no samples."""
    file = folder / SAMPLES
    if not file.is_file():
        return False
    groups: dict[ResultKey, dict[int, Sample]] = {}
    for row in read_samples(folder):
        groups.setdefault(result_key(row), {})[row["index"]] = row
    results = []
    for (benchmark, seed, lenient, decoding), by_index in groups.items():
        rows = [by_index[i] for i in range(len(by_index))]
        [(name, _)] = write_questions(rows, folder).values()
        which = {"benchmark": benchmark, "seed": seed, "decoding": decoding, "lenient": lenient}
        results.append({**which, "questions": name, "right": "".join("01"[bool(row["correct"])] for row in rows)})
    io.write_json(folder / OUTCOMES, results)
    file.unlink()
    return True


def main() -> None:
    """Compact every run below the folders given."""
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    runs = sorted(file.parent for folder in sys.argv[1:] for file in Path(folder).rglob(SAMPLES))
    for run in runs:
        compact(run)
        print(f"compacted  {run}")


if __name__ == "__main__":
    main()
