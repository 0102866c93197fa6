"""A study, its cells and how to run them → one job that is handed to worker processes."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruplar.experiments import storage
from ruplar.experiments.plan import Cell
from ruplar.experiments.study import Study


@dataclass(frozen=True)
class Options:
    """How a study is run."""

    device: str = "cpu"  # device of all workers, as torch names it
    jobs: int = 1  # cells that run at the same time, each in a process of its own; 0: all in this process
    data_dir: Path | None = None  # folder with the files of known benchmarks
    session: str = ""  # identifies this start of the study: a cell that failed in it is not retried in it


@dataclass(frozen=True)
class Job:
    """A study with all its cells, those of them to run, its folders, and how to run it."""

    study: Study
    cells: tuple[Cell, ...]
    chosen: tuple[Cell, ...]
    places: storage.Places
    options: Options = Options()

    @property
    def alone(self) -> bool:
        """Whether a cell has the device for itself; otherwise a cell that runs out of memory is run again alone."""
        return self.options.jobs <= 1

    def status(self, cell: Cell) -> storage.Status:
        """Return how far a cell is."""
        return storage.status(cell, self.places, self.study)

    def failed(self, cell: Cell) -> dict[str, Any] | None:
        """Return how a cell failed in this session; None when it did not."""
        known = storage.failure(cell, self.places)
        return known if known is not None and known["session"] == self.options.session else None
