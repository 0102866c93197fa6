"""A verb's options → a run with its record: load, run with a progress bar, write run.json. Shared by `cli` and `demo`."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ruplar.errors import UserError

if TYPE_CHECKING:
    from rich.console import Console

    from ruplar.config import RunConfig
    from ruplar.data.sources import SourceConfig
    from ruplar.domains.base import Domain
    from ruplar.engine.sampling import Decoding
    from ruplar.evaluate.ablate import AblationRow
    from ruplar.evaluate.record import BenchmarkResult, RunRecord
    from ruplar.model.store import PluginSpec
    from ruplar.train.run import TrainResult


def train_and_record(
    config: RunConfig, folder: Path, overrides: Sequence[str], *, resume: bool, device: str, console: Console
) -> Path | None:
    """Train with a progress bar (a line a row where there is no terminal) and leave run.json beside the model.

    Returns:
        The run's folder; None in the helper processes of a distributed run.
    """
    from ruplar.train.progress import BarProgress, line
    from ruplar.train.run import train

    started = datetime.now(UTC)
    if console.is_terminal:
        with BarProgress(console) as progress:
            result = train(config, output=folder, resume=resume, device=device, progress=progress)
    else:
        result = train(
            config, output=folder, resume=resume, device=device,
            progress=lambda p: console.print(line(p), highlight=False, soft_wrap=True) if p.row else None,
        )  # fmt: skip
    if not result.main:
        return None
    _write(training_record(config, overrides, result, started, device), folder)
    return folder


def training_record(
    config: RunConfig, overrides: Sequence[str], result: TrainResult, started: datetime, device: str
) -> RunRecord:
    """What `train` did → its record, without benchmarks yet."""
    return _record(
        config.name, config.as_dict(), config.seed, started, device,
        overrides=list(overrides),
        data=result.fingerprints,
        left_out=result.left_out,
        seconds=result.seconds,
        train_seconds=result.seconds,
        peak_gb=result.peak_memory_gb,
    )  # fmt: skip


def evaluate_and_record(
    reference: str,
    on: Sequence[SourceConfig],
    decoding: Decoding,
    seeds: Sequence[int],
    *,
    console: Console,
    device: str,
    output: Path | None = None,
    batch_size: int = 64,
    limit: int | None = None,
    data_dir: Path | None = None,
    skip_bad: bool = False,
    settings: Mapping[str, Any] | None = None,
    **options: Any,
) -> tuple[RunRecord, Path]:
    """Evaluate with a progress bar and write run.json and samples.jsonl.gz after each benchmark.

    Questions are read before the weights are. Results are added to the record that lies in the folder (a run's own folder
    when the model has one), else one is begun. With other `settings` of the method than the model was saved with, the folder
    is one of their own.

    Returns:
        The record and the folder it was written to.
    """
    from ruplar.evaluate.benchmark import evaluate
    from ruplar.evaluate.question_sets import open_questions
    from ruplar.evaluate.record import RECORD, read_record, write_samples
    from ruplar.model.soup import seeds_of
    from ruplar.model.store import find_model
    from ruplar.reasoner import LatentReasoner

    model_folder = find_model(reference)
    run = model_folder.parent
    changes = "".join(f"-{key}-{value}" for key, value in sorted((settings or {}).items()))
    folder = output or (
        run
        if (run / RECORD).is_file() and not settings
        else Path("runs") / f"evaluate-{reference.replace(':', '-').strip('/').replace('/', '-')}{changes}"
    )
    started, clock = datetime.now(UTC), time.monotonic()
    questions = open_questions(on, _domain(reference), limit=limit, data_dir=data_dir, skip_bad=skip_bad)
    reasoner = LatentReasoner.from_pretrained(reference, device, settings=settings)
    begun = read_record(folder) if (folder / RECORD).is_file() else None
    if begun is not None:
        _check_same_method(begun, reasoner.model.metadata.method, folder)
        record = begun
    else:
        card = reasoner.model.metadata.model_dump(mode="json")
        record = _record(reasoner.model.metadata.method.name, card, seeds[0], started, device)
        record = record.model_copy(update={"mean_of": seeds_of(model_folder)})
    with counting(console) as tell:
        for asked in questions:  # each is on record before the next is asked: an hour may lie between them
            found = evaluate(
                reasoner, [asked], seeds=seeds, decoding=decoding, batch_size=batch_size, on_progress=tell, **options
            )
            for result in found.results:
                record = record.with_benchmark(result)
                _tell_result(console, result)
            data = {**record.data, **fingerprints(found.sources)}
            seconds = record.seconds if begun is not None else time.monotonic() - clock
            record = record.model_copy(update={"data": data, "seconds": seconds})
            write_samples([*_kept_samples(folder, found.samples), *found.samples], folder)
            _write(record, folder)
    return record, folder


def _tell_result(console: Console, result: BenchmarkResult) -> None:
    """One line where no progress bar is seen, in a log say."""
    if not console.is_terminal:
        seconds = result.ms_per_question * result.n / 1000
        console.print(
            f"{result.name}: {result.accuracy:.1f} % of {result.n:,} questions, {seconds:.0f} s", highlight=False
        )


def _domain(reference: str) -> Domain:
    """What an answer of a model is; none of its weights is read for it."""
    from ruplar import plugins
    from ruplar.model.store import find_model, read_metadata

    named = read_metadata(find_model(reference)).domain
    return plugins.make("domains", named.name, named.settings)


def _check_same_method(record: RunRecord, method: PluginSpec, folder: Path) -> None:
    """Refuse to file one model's scores under another's name, or one speed's under another's."""
    section = record.config.get("method", {})
    if section.get("name") != method.name:
        raise UserError(
            f"{folder}: holds the record of '{record.name}', a model of method '{section.get('name')}', not "
            f"'{method.name}'. Choose another --output."
        )
    recorded = section.get("settings", section)  # a run's config has them beside the name
    # what the recipe left open, the model may have measured
    other = [k for k, v in method.settings.items() if recorded.get(k, v) not in (v, None)]
    if other:
        raise UserError(
            f"{folder}: its results are of a model with another method.{', method.'.join(other)}. Choose another --output."
        )


def fingerprints(sources: Sequence[dict[str, Any]]) -> dict[str, str]:
    """What identifies the content of each benchmark."""
    from ruplar.train.dataset import fingerprint_of

    return {f"{source.get('split', 'test')}: {source['source']}": fingerprint_of(source) for source in sources}


def _kept_samples(folder: Path, fresh: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of an earlier evaluation in the same folder that this one does not replace."""
    from ruplar.evaluate.record import SAMPLES, read_samples

    graded = {row.get("lenient", False) for row in fresh}
    again = {(row["benchmark"], row["seed"], row["decoding"]) for row in fresh}
    again |= {(*asked[:2], None) for asked in again}  # rows of older runs do not say how they were decoded
    found = read_samples(folder) if (folder / SAMPLES).is_file() else []
    return [
        row
        for row in found
        if (row["benchmark"], row["seed"], row.get("decoding")) not in again or row.get("lenient", False) not in graded
    ]


def ablate_model(
    reference: str,
    on: Sequence[SourceConfig],
    *,
    console: Console,
    device: str,
    seed: int = 0,
    batch_size: int = 64,
    limit: int | None = None,
    data_dir: Path | None = None,
) -> dict[str, list[AblationRow]]:
    """Ablate the latents of a model on each set: name → one row a mode, the real latents first.

    All sets are read before the weights are.
    """
    from ruplar.data.sources import open_source
    from ruplar.evaluate.ablate import ablate
    from ruplar.reasoner import LatentReasoner

    domain = _domain(reference)
    sets = [(source.name, open_source(source, domain, need_steps=False, data_dir=data_dir)) for source in on]
    reasoner = LatentReasoner.from_pretrained(reference, device)
    found = {}
    for name, opened in sets:
        with counting(console) as tell:
            found[name] = ablate(
                reasoner,
                opened.examples[: limit or len(opened.examples)],
                seed=seed,
                batch_size=batch_size,
                on_progress=tell,
            )
    return found


@contextmanager
def counting(console: Console) -> Iterator[Any]:
    """Progress bars, one a name: yields a function of (name, done, total)."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(bar_width=20), MofNCompleteColumn(), TimeRemainingColumn())
    tasks: dict[str, Any] = {}
    with Progress(*columns, console=console) as progress:

        def tell(name: str, done: int, total: int) -> None:
            if name not in tasks:
                tasks[name] = progress.add_task(name, total=total)
            progress.update(tasks[name], completed=done)

        yield tell


def _record(name: str, config: dict[str, Any], seed: int, started: datetime, device: str, **figures: Any) -> RunRecord:
    from ruplar.evaluate.record import RunRecord, commit_of, machine, versions

    commit, dirty = commit_of()
    return RunRecord(
        name=name,
        config=config,
        seed=seed,
        commit=commit,
        dirty=dirty,
        versions=versions(),
        machine=machine(_gpu(device)),
        started=started.isoformat(timespec="seconds"),
        **figures,
    )


def _gpu(device: str) -> str | None:
    if not device.startswith("cuda"):
        return None
    import torch

    return torch.cuda.get_device_name(device)


def _write(record: RunRecord, folder: Path) -> None:
    from ruplar.evaluate.record import write_record

    write_record(record, folder)
