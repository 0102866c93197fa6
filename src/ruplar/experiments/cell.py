"""One cell → its record: train (or go on training), ask every benchmark, ablate, write run.json last.

Each part can be cut off at any moment. Training goes on from its last complete checkpoint; what was trained is not
trained again; a cell without run.json is asked again from its model.
"""

from __future__ import annotations

import gc
import logging
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ruplar.data.cache import ENCODED
from ruplar.data.sources import open_source
from ruplar.engine.sampling import Decoding
from ruplar.errors import UserError
from ruplar.evaluate.ablate import ablate
from ruplar.evaluate.benchmark import Evaluation, evaluate, soft
from ruplar.evaluate.question_sets import Part
from ruplar.evaluate.record import RunRecord, read_record, write_record, write_samples
from ruplar.experiments import reuse as taken
from ruplar.experiments import storage as disk
from ruplar.experiments.consistency import check_same_data, check_same_start, start_of
from ruplar.experiments.plan import VALID, Cell, Study, folder_name
from ruplar.model.memory import forget_peak
from ruplar.model.soup import average
from ruplar.model.store import start_mark
from ruplar.reasoner import LatentReasoner
from ruplar.runs import fingerprints, training_record
from ruplar.train import METRICS, MODEL, checkpoint
from ruplar.train.progress import Progress, line
from ruplar.train.run import train

log = logging.getLogger(__name__)

Tell = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is done, and how much there is."""


@dataclass(frozen=True)
class Bench:
    """What all cells of a study share: its settings, where they lie, what they run on."""

    study: Study
    places: disk.Places
    device: str
    data_dir: Path | None = None


def run_cell(cell: Cell, bench: Bench, others: Sequence[Cell], tell: Tell) -> RunRecord:
    """Bring a cell to its record.

    Args:
        cell: Claimed by the caller.
        bench: Shared by all cells.
        others: Of the same study; those that are done must have been trained on the same data.
        tell: Told how far it is.

    Raises:
        UserError: Its settings, its data or its folder do not fit.
    """
    elsewhere = None if asked_for(cell, others, bench) else _elsewhere(cell, bench, others)
    if elsewhere is not None:
        log.info("%s: trained and asked under these very settings already; its record is taken.", elsewhere)
        record = read_record(elsewhere)
        if "data" in bench.study.same:
            check_same_data(cell, record, bench.places, others)
        if "init" in bench.study.same:
            check_same_start(cell, start_of(record), bench.places, others)
        return taken.take_record(elsewhere, cell, bench.places, bench.study)
    _release(bench.device)
    forget_peak(bench.device)
    if "init" in bench.study.same:
        check_same_start(cell, _begins(cell, bench), bench.places, others)
    trained = _averaged(cell, bench, others) if cell.mean else _trained(cell, bench, tell)
    if "data" in bench.study.same:
        check_same_data(cell, trained, bench.places, others)
    record = _asked(cell, trained, bench, tell)
    for stale in bench.places.run(cell).glob("checkpoint-*"):
        shutil.rmtree(stale)
    _release(bench.device)
    return record


def asked_for(cell: Cell, others: Sequence[Cell], bench: Bench) -> bool:
    """Whether another cell will ask this one's model, so that its record alone would not do."""
    for other in (o for o in others if o.needs(cell)):
        record = disk.recorded(other, bench.places)
        done = record is not None and disk.asked_all(record, bench.study)
        if not done and _elsewhere(other, bench, others) is None:
            return True
    return False


def _elsewhere(cell: Cell, bench: Bench, others: Sequence[Cell]) -> Path | None:
    return taken.asked_elsewhere(cell, bench.places, bench.study, others, bench.data_dir)


def _release(device: str) -> None:
    """Give back what an earlier cell of this process held: a trainer and its model hold each other."""
    gc.collect()
    if device.startswith("cuda"):
        import torch

        torch.cuda.empty_cache()


def _begins(cell: Cell, bench: Bench) -> dict[str, str]:
    """The weights the cell began at, or is about to; those of a mean are its trainings'."""
    run = (
        bench.places.work / folder_name(cell.of, cell.mean[0])
        if cell.of and cell.mean
        else bench.places.model_of(cell)
    )
    done = run / disk.TRAINED
    return start_of(read_record(done)) if done.is_file() else start_mark(cell.config.backbone.init)


def _trained(cell: Cell, bench: Bench, tell: Tell) -> RunRecord:
    """The record of the cell's training, made now unless it was before."""
    run = bench.places.model_of(cell)
    done = run / disk.TRAINED
    if done.is_file():
        record = read_record(done)
        if cell.of is None:
            disk.check_same_settings(cell, record.config, run)
            disk.check_same_mean(cell, record, run)
        return record
    if cell.of is not None:
        raise UserError(f"{run}: holds no trained model; '{cell.label}' asks the one of '{cell.of}'.")
    begun = run / "cell.json"
    if begun.is_file():
        disk.check_same_settings(cell, Cell.from_dict(_read_json(begun)).config.as_dict(), run)
    elif any(run.glob("checkpoint-*")) or (run / METRICS).exists():
        raise UserError(f"{run}: holds a run of something else. Choose another --work.")
    disk.write_json(begun, cell.as_dict())
    elsewhere = disk.trained_elsewhere(cell, bench.places, MODEL)
    if elsewhere is not None and not any(run.glob("checkpoint-*")):
        log.info("%s: trained under these very settings already; its model is taken.", elsewhere)
        return disk.take(elsewhere, run, (MODEL, METRICS))
    if (run / MODEL).exists() and checkpoint.latest(run) is None:
        shutil.rmtree(run / MODEL)  # killed before its figures were written, with nothing to go on from
    started = datetime.now(UTC)
    result = train(
        cell.config,
        output=run,
        resume=any(run.glob("checkpoint-*")) or (run / METRICS).exists(),
        device=bench.device,
        progress=_shown(tell),
        encoded=bench.places.work.parent / ENCODED,
    )
    record = training_record(cell.config, cell.overrides, result, started, bench.device)
    disk.write_json(done, record.model_dump(mode="json"))
    return record


def _averaged(cell: Cell, bench: Bench, others: Sequence[Cell]) -> RunRecord:
    """The record of a mean's trainings, together; its model is written now unless it was before."""
    run = bench.places.run(cell)
    done = run / disk.TRAINED
    if done.is_file():
        record = read_record(done)
        disk.check_same_settings(cell, record.config, run)
        disk.check_same_mean(cell, record, run)
        return record
    trainings = [bench.places.run(other) for other in others if cell.needs(other)]
    records = [read_record(training / disk.TRAINED) for training in trainings]
    if (run / MODEL).exists():
        shutil.rmtree(run / MODEL)  # killed before its figures were written
    average([training / MODEL for training in trainings], run / MODEL)
    record = _together(records)
    disk.write_json(done, record.model_dump(mode="json"))
    return record


def _together(records: Sequence[RunRecord]) -> RunRecord:
    """What several trainings have in common, and the sum of what they took; they may have been made by different commits."""
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


def _read_json(file: Path) -> Any:
    import json

    return json.loads(file.read_text(encoding="utf-8"))


def _shown(tell: Tell) -> Callable[[Progress], None]:
    def show(progress: Progress) -> None:
        tell("train", progress.step, progress.steps)
        if progress.row:
            log.info(line(progress))

    return show


def _asked(cell: Cell, trained: RunRecord, bench: Bench, tell: Tell) -> RunRecord:
    """Ask, ablate, write everything; run.json last."""
    study, folder, clock = bench.study, bench.places.result(cell), time.monotonic()
    reasoner = LatentReasoner.from_pretrained(
        bench.places.model_of(cell) / MODEL, bench.device, engine=study.engine, settings=cell.asks
    )
    on = [
        Part(VALID, cell.config.data.valid, "valid") if s.source == VALID and cell.config.data.valid else s
        for s in study.on
    ]
    found = evaluate(
        reasoner,
        on,
        decoding=Decoding(),
        batch_size=study.batch_size,
        latency_questions=study.latency_questions,
        data_dir=bench.data_dir,
        on_progress=tell,
    )
    if study.ablate is not None and soft(reasoner.model):
        disk.write_json(folder / "ablation.json", _ablation(reasoner, bench, tell))
    # all answers are kept for paired tests; a study's readable latents would be most of the repository
    kept = (row if row["index"] < study.readable else {**row, "latents": []} for row in found.samples)
    write_samples(kept, folder, share=True)
    curve = bench.places.model_of(cell) / METRICS
    if curve.is_file():
        shutil.copyfile(curve, folder / METRICS)
    record = _record(cell, trained, found, study, time.monotonic() - clock)
    write_record(record, folder)
    return record


def _ablation(reasoner: LatentReasoner, bench: Bench, tell: Tell) -> dict[str, Any]:
    source = bench.study.ablate
    assert source is not None
    opened = open_source(source, reasoner.model.domain, need_steps=False, data_dir=bench.data_dir)
    rows = ablate(
        reasoner,
        opened.examples,
        batch_size=bench.study.batch_size,
        on_progress=lambda mode, done, of: tell(f"latents: {mode}", done, of),
    )
    return {"on": source.name, "rows": [row.as_dict() for row in rows]}


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
