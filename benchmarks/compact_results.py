"""Replace the samples of runs by their outcomes (right or wrong per question), so that results can be committed.

    python benchmarks/compact_results.py results/STUDY ...

Paired tests and intervals stay the same. The text of answers and the latents are deleted: keep the samples of runs whose
thoughts a figure or model card shows.
"""

from __future__ import annotations

import sys
from pathlib import Path

from ruplar.evaluate.samples import SAMPLES, compact


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
