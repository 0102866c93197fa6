"""One cell → its record: train or resume, evaluate on every benchmark, ablate, write run.json last.

A kill is safe at any moment. Training resumes from its last complete checkpoint, a trained model is not trained again, and a
cell without run.json is evaluated again.
"""

import gc
import json
import logging
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from ruplar.config import from_dict
from ruplar.data.cache import ENCODED
from ruplar.data.sources import SourceConfig
from ruplar.engine.sampling import Decoding
from ruplar.errors import UserError
from ruplar.evaluate.ablate import ablate
from ruplar.evaluate.benchmark import Evaluation, evaluate, soft
from ruplar.evaluate.question_sets import Part, open_questions
from ruplar.evaluate.record import ABLATION, BenchmarkResult, RunRecord, read_record, write_record, write_samples
from ruplar.evaluate.samples import SAMPLES
from ruplar.experiments import storage
from ruplar.experiments.job import Job
from ruplar.experiments.plan import Cell
from ruplar.experiments.study import VALID, Study, folder_name
from ruplar.io import METRICS, MODEL, RECORD, TRAINED, write_json
from ruplar.model.memory import forget_peak
from ruplar.model.soup import average
from ruplar.model.store import start_mark
from ruplar.reasoner import LatentReasoner
from ruplar.runs import fingerprints, other_samples, training_record, weights_of
from ruplar.train import checkpoint
from ruplar.train.progress import Progress, line
from ruplar.train.run import train

log = logging.getLogger(__name__)

_START, _DATA = ("start: ",), ("train ", "valid: ")
"""How the fingerprints of a run's start and of its data are named."""


def run_cell(cell: Cell, job: Job) -> RunRecord:
    """Train and evaluate a claimed cell, and return its record."""
    earlier = check_tested(cell, job)
    gc.collect()  # an earlier cell in this process: a trainer and its model reference each other
    forget_peak(job.options.device)
    if "init" in job.study.controls:
        check_same(cell, _start(cell, job), job.places, job.cells, _START)
    trained = _model(cell, job)
    if "data" in job.study.controls:
        check_same(cell, trained.data, job.places, job.cells, _DATA)
    record = _evaluated(cell, trained, job, earlier)
    for stale in job.places.run(cell).glob("checkpoint-*"):
        shutil.rmtree(stale)
    return record


def check_tested(cell: Cell, job: Job) -> RunRecord | None:
    """Return the record of a cell that was evaluated on its test sets; None for any other."""
    record = storage.recorded(cell, job.places)
    names = {source.name for source in job.study.test}
    if record is None or not any(result.name in names for result in record.benchmarks):
        return None
    if not storage.has_model(cell, job.places, record):
        raise UserError(
            f"{job.places.result(cell)}: its record has test results, but their model is not in "
            f"{job.places.model_of(cell)}. Restore the model, or choose another --output and --work."
        )
    return record


def asked(cell: Cell, source: SourceConfig) -> Part:
    """Return what a study's entry stands for in a cell; its name there is that of the result, whatever the content."""
    valid = cell.config.data.valid if source.source == VALID else None
    return Part(source.name, source) if valid is None else Part(VALID, valid, "valid")


def answer(cell: Cell, job: Job, on: Sequence[SourceConfig]) -> tuple[LatentReasoner, Evaluation]:
    """Load a cell's model and let it answer every question of some benchmarks."""
    study = job.study
    reasoner = LatentReasoner.from_pretrained(
        job.places.model_of(cell) / MODEL, job.options.device, engine=study.engine, settings=cell.inference
    )
    found = evaluate(
        reasoner,
        [asked(cell, source) for source in on],
        decoding=Decoding(),
        batch_size=study.batch_size,
        latency_questions=study.latency_questions,
        data_dir=job.options.data_dir,
    )
    return reasoner, found


def add_samples(found: Evaluation, folder: Path, study: Study, keep: RunRecord | None) -> list[BenchmarkResult]:
    """Write samples.jsonl.gz with new answers; returns the results of an earlier record that stay beside them."""
    new = {result.key for result in found.results}
    # paired tests need all answers; decoded latents of all of them would take most of the space
    rows = [row if row["index"] < study.readable else {**row, "latents": []} for row in found.samples]
    kept: list[BenchmarkResult] = []
    if keep is not None:
        if not (folder / SAMPLES).is_file():
            raise UserError(f"{folder}: has no {SAMPLES}, so no answers can be added to it. Choose another --output.")
        kept = [result for result in keep.benchmarks if result.key not in new]
        rows = [*other_samples(folder, rows), *rows]
    write_samples(rows, folder, share=True)
    return kept


def _start(cell: Cell, job: Job) -> dict[str, str]:
    """Return the fingerprint of the weights a cell started from, or will; for a soup, those of its training runs."""
    places = job.places
    run = places.work / folder_name(cell.of, cell.soup[0]) if cell.of and cell.soup else places.model_of(cell)
    done = run / TRAINED
    return read_record(done).data if done.is_file() else start_mark(cell.config.backbone.init)


def _model(cell: Cell, job: Job) -> RunRecord:
    """Return the record of the model a cell evaluates; where it is missing, train it or average its soup."""
    run, own = job.places.model_of(cell), cell.of is None or bool(cell.soup)
    done = run / TRAINED
    if done.is_file():
        record = read_record(done)
        if own:
            storage.check_same_settings(cell, record.config, run)
            storage.check_same_soup(cell, record, run)
        return record
    if not own:
        raise UserError(f"{run}: has no trained model; '{cell.label}' needs that of '{cell.of}'.")
    record = _average(cell, job, run) if cell.soup else _train(cell, job, run)
    write_json(done, record.model_dump(mode="json"))
    return record


def _train(cell: Cell, job: Job, run: Path) -> RunRecord:
    _begin(cell, run)
    if (run / MODEL).exists() and checkpoint.latest(run) is None:
        shutil.rmtree(run / MODEL)  # killed before its record was written, without a checkpoint to resume from
    started = datetime.now(UTC)
    result = train(
        cell.config,
        output=run,
        resume=any(run.glob("checkpoint-*")) or (run / METRICS).exists(),
        device=job.options.device,
        progress=_log,
        encoded=job.places.work.parent / ENCODED,
    )
    return training_record(cell.config, cell.overrides, result, started, job.options.device)


def _begin(cell: Cell, run: Path) -> None:
    """Write `cell.json`; refuse a folder with a run of other settings."""
    begun = run / "cell.json"
    if begun.is_file():
        known = json.loads(begun.read_text(encoding="utf-8"))
        storage.check_same_settings(cell, from_dict(known["config"]).as_dict(), run)
    elif any(run.glob("checkpoint-*")) or (run / METRICS).exists():
        raise UserError(f"{run}: contains another run. Choose another --work.")
    write_json(begun, {"label": cell.label, "config": cell.config.as_dict()})


def _average(cell: Cell, job: Job, run: Path) -> RunRecord:
    trainings = [job.places.run(other) for other in job.cells if cell.needs(other)]
    if (run / MODEL).exists():
        shutil.rmtree(run / MODEL)  # killed before its record was written
    average([training / MODEL for training in trainings], run / MODEL)
    together = _together([read_record(training / TRAINED) for training in trainings])
    return together.model_copy(update={"weights": weights_of(run / MODEL)})


def _together(records: Sequence[RunRecord]) -> RunRecord:
    first = records[0]
    commits = list(dict.fromkeys(record.commit for record in records if record.commit))
    found = {key: list(dict.fromkeys(record.versions.get(key, "") for record in records)) for key in first.versions}
    return first.model_copy(
        update={
            "mean_of": [record.seed for record in records],
            "commit": ", ".join(commits) or None,
            "dirty": None if any(record.dirty is None for record in records) else any(r.dirty for r in records),
            "versions": {key: ", ".join(values) for key, values in found.items()},
            "finished": all(record.finished for record in records),
            "seconds": sum(record.seconds for record in records),
            "train_seconds": sum(record.train_seconds or 0.0 for record in records),
            "peak_gb": max(record.peak_gb or 0.0 for record in records) or None,
        }
    )


def _log(progress: Progress) -> None:
    if progress.row:
        log.info(line(progress))


def _evaluated(cell: Cell, trained: RunRecord, job: Job, earlier: RunRecord | None) -> RunRecord:
    study, folder, clock = job.study, job.places.result(cell), time.monotonic()
    run = job.places.model_of(cell)
    reasoner, found = answer(cell, job, study.on)
    if study.ablate not in study.test:
        write_ablation(cell, reasoner, job, folder)
    kept = add_samples(found, folder, study, earlier)
    if (run / METRICS).is_file():
        shutil.copyfile(run / METRICS, folder / METRICS)
    record = _record(cell, trained, found, study, time.monotonic() - clock)
    record = record.model_copy(update={"benchmarks": [*record.benchmarks, *kept]})
    write_record(record, folder)
    return record


def write_ablation(cell: Cell, reasoner: LatentReasoner, job: Job, folder: Path) -> None:
    """Write ablation.json, if the study has an ablation and the model soft tokens."""
    if job.study.ablate is None or not soft(reasoner.model):
        return
    on = [asked(cell, job.study.ablate)]
    [questions] = open_questions(on, reasoner.model.domain, data_dir=job.options.data_dir)
    rows = ablate(reasoner, questions.examples, batch_size=job.study.batch_size)
    write_json(folder / ABLATION, {"on": questions.name, "rows": [row.as_dict() for row in rows]})


def _record(cell: Cell, trained: RunRecord, found: Evaluation, study: Study, seconds: float) -> RunRecord:
    return trained.model_copy(
        update={
            "name": cell.label,
            "study": study.name,
            "config": cell.config.as_dict(),
            "overrides": list(cell.overrides),
            "data": {**trained.data, **fingerprints(found.sources)},
            "seconds": trained.seconds + seconds,
            "benchmarks": found.results,
        }
    )


def check_same(
    cell: Cell, marks: Mapping[str, str], places: storage.Places, others: Sequence[Cell], kinds: tuple[str, ...]
) -> None:
    """Reject a cell whose data or initial weights have another fingerprint than in a finished cell."""
    for other, record in _finished(cell, places, others):
        for name, mark in marks.items():
            if name.startswith(kinds) and record.data.get(name, mark) != mark:
                raise UserError(
                    f"{cell.label}, seed {cell.seed}: '{name}' is {mark}, but {record.data[name]} in '{other.label}', seed "
                    f"{other.seed}. It changed in between; train both again."
                )


def _finished(cell: Cell, places: storage.Places, others: Sequence[Cell]) -> Iterator[tuple[Cell, RunRecord]]:
    for other in others:
        files = (places.run(other) / TRAINED, places.result(other) / RECORD)  # models may have been deleted
        file = next((file for file in files if file.is_file()), None)
        if other.name != cell.name and file is not None:
            yield other, read_record(file)
