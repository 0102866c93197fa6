"""A finished study → its results on the test sets, evaluated once, for a list of rows that was committed before.

ruplar study NAME             trains the rows and evaluates them on the selection sets (`on:`)
ruplar study NAME --final     evaluates every finished cell on the test sets (`test:`)

run.json     per test set the commit of the study file, the time, how often it was evaluated again, whether the row was added later
study.json   `frozen`: commit, time and rows at the first test evaluation

A result on record is kept, also one from before this protocol; `--again LABEL` evaluates again, and the result says so.
"""

import time
from collections.abc import Collection
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ruplar.config.recipes import RECIPES
from ruplar.data.sources import SourceConfig
from ruplar.errors import UserError, unknown
from ruplar.evaluate.record import commit_of, git, read_record, study_of, write_record
from ruplar.experiments import storage
from ruplar.experiments.job import Job
from ruplar.experiments.plan import Cell, recipe_of, rows_of
from ruplar.experiments.run import Outcome, Watch
from ruplar.experiments.study import STUDIES, load_study
from ruplar.runs import fingerprints


def frozen_commit(file: Path, given: str | None = None) -> str:
    """Return the commit that last changed a study file, its recipes or their bases; `given` for a file git does not track."""
    files = _files_of(file)
    for one in files:
        if git(file.parent, "ls-files", "--error-unmatch", "--", str(one.resolve())) is None:
            if given is not None:
                return given
            raise UserError(
                f"{one}: git does not track it. Commit the study file and its recipes first. For a study of an installed "
                "package, pass its commit with --frozen-at COMMIT."
            )
    if given is not None:
        raise UserError(f"--frozen-at: git tracks {file}, so its own commit is recorded. Remove the option.")
    names = [str(one.resolve()) for one in files]
    if changed := git(file.parent, "status", "--porcelain", "--", *names):
        name = changed.splitlines()[0].split(maxsplit=1)[1]
        raise UserError(f"{name}: has uncommitted changes. Commit the study file and its recipes first.")
    commit = git(file.parent, "log", "-1", "--format=%H", "--", *names)
    assert commit, "a tracked file without changes is in a commit"
    return commit


def _files_of(file: Path) -> list[Path]:
    """List a study file, its recipes and all that they are based on; what is packaged only if it is beside the study file."""
    found = dict(STUDIES.with_bases(file))
    for row in load_study(str(file)).rows.values():
        found |= dict(RECIPES.with_bases(RECIPES.find(recipe_of(row, file.parent)))) if row.recipe else {}
    return [one for one in found if one.parent == file.parent or one.parent not in (STUDIES.folder, RECIPES.folder)]


def evaluate_on_test_sets(job: Job, frozen_at: str, again: Collection[str], watch: Watch) -> Outcome:
    """Evaluate every finished cell on the test sets, in this process; what is on record is kept.

    Args:
        job: The study, the cells to evaluate, and how.
        frozen_at: From `frozen_commit`.
        again: Labels of rows that are evaluated again.
        watch: As in `run_study`.

    Returns:
        Which cells failed, and which are left: not finished, or run by another process at the moment.
    """
    if not job.study.test:
        raise UserError(f"study {job.study.name}: has no test sets. List them under test: in its file.")
    if commit_of()[1]:
        raise UserError("--final: the code of ruplar has uncommitted changes; tables omit such results. Commit them.")
    for label in again:
        if label not in rows_of(job.study):
            raise UserError(f"--again: {unknown('row', label, rows_of(job.study))}")
    found = Outcome()
    frozen = study_of(job.places.results).get("frozen")
    frozen = frozen or {"at": frozen_at, "time": _now(), "rows": list(rows_of(job.study))}
    for cell in job.chosen:
        if job.status(cell) != "done":
            found.left.append(cell.name)
            continue
        with storage.claim(cell, job.places) as mine:
            if not mine:
                found.left.append(cell.name)
                continue
            on = _missing(cell, job, again)
            try:
                if on:
                    _evaluate(cell, job, on, frozen_at, frozen, watch)
            except UserError as error:
                found.failed[cell.name] = str(error)
                watch({"event": "failed", "cell": cell.name, "reason": str(error)})
    return found


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _missing(cell: Cell, job: Job, again: Collection[str]) -> list[SourceConfig]:
    """Return the test sets that a cell has no result on, or all of them if its row is evaluated again."""
    done = storage.results_of(read_record(job.places.result(cell)))
    return [source for source in job.study.test if cell.label in again or source.name not in done]


def _evaluate(
    cell: Cell, job: Job, on: list[SourceConfig], frozen_at: str, frozen: dict[str, Any], watch: Watch
) -> None:
    """Evaluate a cell's model on test sets, and add the results to its record; write the frozen list before the first one."""
    from ruplar.experiments.cell import add_samples, answer, write_ablation

    folder = job.places.result(cell)
    record = read_record(folder)
    if not storage.has_model(cell, job.places, record):
        raise UserError(
            f"the model of its record is not in {job.places.model_of(cell)}. Restore it there, or train it into another "
            "--output and --work."
        )
    began = time.monotonic()
    watch({"event": "start", "cell": cell.name, "again": False})

    reasoner, found = answer(cell, job, on)
    now, times = _now(), {name: result.evaluated_again + 1 for name, result in storage.results_of(record).items()}
    about = {"frozen_at": frozen_at, "added_later": cell.label not in frozen["rows"]}
    results = [
        result.model_copy(update={**about, "evaluated_at": now, "evaluated_again": times.get(result.name, 0)})
        for result in found.results
    ]
    storage.write_study(job.study, job.cells, job.places, frozen)
    if job.study.ablate in on:
        write_ablation(cell, reasoner, job, folder)
    kept = add_samples(replace(found, results=results), folder, job.study, record)
    data = {**record.data, **fingerprints(found.sources)}
    write_record(record.model_copy(update={"benchmarks": [*kept, *results], "data": data}), folder)
    scores = {result.name: round(result.accuracy, 2) for result in results}
    watch({"event": "done", "cell": cell.name, "seconds": time.monotonic() - began, "scores": scores})
