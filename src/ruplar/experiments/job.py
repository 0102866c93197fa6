"""A study, its cells and how to run them → one job that is handed to workers as a JSON file."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ruplar.experiments import storage
from ruplar.experiments.plan import Cell
from ruplar.experiments.study import Study
from ruplar.io import write_json


@dataclass(frozen=True)
class Options:
    """How a study is run."""

    device: str = "cpu"  # device of all workers, as torch names it
    jobs: int | None = None  # parallel workers; 0: in this process, None: as many as memory and cores allow
    budget: float | None = None  # seconds after which no further cell is started; None: no limit
    data_dir: Path | None = None  # folder with the files of known benchmarks
    share: float | None = None  # fraction of the GPU's memory that this worker may use; None: no limit
    reuse: bool = True  # whether models of other studies may be reused
    session: str = ""  # identifies this start of the study: a cell that failed in it is not retried in it
    deadline: float | None = None  # `budget` as a time in seconds since 1970
    most: int | None = None  # cells to run before a worker ends; None: all
    threads: int | None = None  # torch threads of a worker on the CPU; None: torch's default
    # nothing runs in parallel. Otherwise a cell that runs out of memory is deferred to an exclusive job.
    exclusive: bool = False


@dataclass(frozen=True)
class Job:
    """A study with all its cells, those of them to run, its folders, and how to run it."""

    study: Study
    cells: tuple[Cell, ...]
    chosen: tuple[Cell, ...]
    places: storage.Places
    options: Options = Options()

    def write(self, file: Path) -> None:
        """Write it as JSON."""
        about = {
            "study": self.study.model_dump(mode="json"),
            "cells": [cell.as_dict() for cell in self.cells],
            "chosen": [cell.name for cell in self.chosen],
            "places": {"results": str(self.places.results), "work": str(self.places.work)},
            "options": {**asdict(self.options), "data_dir": self.options.data_dir and str(self.options.data_dir)},
        }
        write_json(file, about)

    @classmethod
    def read(cls, file: Path) -> Job:
        """Read what `write` wrote."""
        data = json.loads(file.read_text(encoding="utf-8"))
        cells = tuple(Cell.from_dict(cell) for cell in data["cells"])
        folder = data["options"].pop("data_dir")
        return cls(
            study=Study.model_validate(data["study"]),
            cells=cells,
            chosen=tuple(cell for cell in cells if cell.name in data["chosen"]),
            places=storage.Places(*(Path(data["places"][key]) for key in ("results", "work"))),
            options=Options(**data["options"], data_dir=Path(folder) if folder else None),
        )

    def status(self, cell: Cell) -> storage.Status:
        """Return how far a cell is."""
        return storage.status(cell, self.places, self.study)

    def failed(self, cell: Cell) -> dict[str, Any] | None:
        """Return how a cell failed in this session; None when it did not."""
        known = storage.failure(cell, self.places)
        return known if known is not None and known["session"] == self.options.session else None
