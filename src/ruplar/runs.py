"""Train, evaluate or ablate with a progress bar, and write run.json. Shared by `cli` and `demo`."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ruplar.display import print_text
from ruplar.errors import Interrupted, UserError

if TYPE_CHECKING:
    from rich.console import Console

    from ruplar.config import RunConfig
    from ruplar.data.sources import SourceConfig
    from ruplar.domains.base import Domain
    from ruplar.engine.sampling import Decoding
    from ruplar.evaluate.ablate import AblationRow
    from ruplar.evaluate.question_sets import Questions
    from ruplar.evaluate.record import BenchmarkResult, RunRecord
    from ruplar.model.store import ModelMetadata
    from ruplar.reasoner import LatentReasoner
    from ruplar.train.progress import Show
    from ruplar.train.run import TrainResult


def train_and_record(
    config: RunConfig,
    folder: Path,
    overrides: Sequence[str],
    *,
    resume: bool,
    device: str,
    console: Console,
    progress: Show | None = None,
) -> Path | None:
    """Train and write run.json next to the model.

    Without `progress`, show a bar on a terminal, or one line per log row elsewhere.
    """
    from ruplar.evaluate.record import write_record
    from ruplar.train import checkpoint
    from ruplar.train.progress import BarProgress, line
    from ruplar.train.run import train

    started = datetime.now(UTC)
    console.quiet |= int(os.environ.get("RANK", "0")) > 0  # of several processes the first one reports
    with ExitStack() as stack:
        if progress is None and console.is_terminal:
            progress = stack.enter_context(BarProgress(console))
        elif progress is None:
            progress = lambda p: console.print(line(p), highlight=False, soft_wrap=True) if p.row else None  # noqa: E731
        try:
            result = train(config, output=folder, resume=resume, device=device, progress=progress)
        except KeyboardInterrupt:
            kept = checkpoint.latest(folder)
            said = f"{kept} is kept; repeat the command with --resume" if kept else f"no checkpoint is in {folder} yet"
            raise Interrupted(f"interrupted: {said}.") from None
    if not result.main:
        return None
    write_record(training_record(config, overrides, result, started, device), folder)
    return folder


def training_record(
    config: RunConfig, overrides: Sequence[str], result: TrainResult, started: datetime, device: str
) -> RunRecord:
    """Return the record of a training, without benchmarks."""
    return _record(
        config.name, config.as_dict(), config.seed, started, device,
        overrides=list(overrides),
        data=result.fingerprints,
        left_out=result.left_out,
        seconds=result.seconds,
        train_seconds=result.seconds,
        peak_gb=result.peak_memory_gb,
        weights=weights_of(result.path),
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
    load: Callable[..., LatentReasoner] | None = None,
    **options: Any,
) -> tuple[RunRecord, Path, list[BenchmarkResult]]:
    """Evaluate with a progress bar; write run.json and samples.jsonl.gz after each benchmark; also return the new results.

    Questions are read before the weights. Results are added to the folder's existing record; the default folder is the
    model's own run folder, or a separate one if there is none or `settings` override those of the model. Limited results
    never join a record of whole ones: they go to a folder `partial` in it. `load` loads the model; None: in this process.
    """
    from ruplar.evaluate.benchmark import evaluate
    from ruplar.evaluate.question_sets import open_questions
    from ruplar.evaluate.record import RECORD, machine, read_record, write_record, write_samples
    from ruplar.io import MODEL, TRAINED, writable_folder
    from ruplar.model.soup import seeds_of
    from ruplar.model.store import find_model
    from ruplar.reasoner import LatentReasoner

    model_folder = find_model(reference)
    run = model_folder.parent
    own = [run / name for name in (RECORD, TRAINED) if model_folder.name == MODEL and (run / name).is_file()]
    changes = "".join(f"-{key}-{value}" for key, value in sorted((settings or {}).items()))
    folder = output or (
        run
        if run / RECORD in own and not settings
        else Path("runs") / f"evaluate-{reference.replace(':', '-').strip('/').replace('/', '-')}{changes}"
    )
    started, clock = datetime.now(UTC), time.monotonic()
    questions = open_questions(on, _domain(reference), limit=limit, data_dir=data_dir, skip_bad=skip_bad)
    existing = read_record(folder) if (folder / RECORD).is_file() else None
    whole = existing is not None and (existing.train_seconds or any(one.limit is None for one in existing.benchmarks))
    if whole and any(one.limit is not None for one in questions):
        folder = folder / "partial"
        print_text(
            console, f"only part of the questions is evaluated; results: {folder}, {RECORD} beside it is unchanged"
        )
        existing = read_record(folder) if (folder / RECORD).is_file() else None
    writable_folder(folder)
    reasoner = (load or LatentReasoner.from_pretrained)(reference, device, settings=settings)
    metadata, weights = reasoner.model.metadata, weights_of(model_folder)
    if existing is not None:
        check_same_model(existing, metadata, weights, folder)
        record = existing
        questions = [_beside(one, existing, console) for one in questions]
    else:
        soup, trained = seeds_of(model_folder), json.loads(own[0].read_text(encoding="utf-8")) if own else {}
        # the seed is that of the training; each result has that of its decoding
        name, seed = trained.get("name", metadata.method.name), trained.get("seed", next(iter(soup), 0))
        card = metadata.model_dump(mode="json")
        record = _record(name, card, seed, started, device, mean_of=soup, weights=weights)
    new: list[BenchmarkResult] = []
    with counting(console) as update:
        for question_set in questions:  # recorded one by one: each may take an hour
            try:
                found = evaluate(
                    reasoner, [question_set], seeds=seeds, decoding=decoding, batch_size=batch_size, on_progress=update,
                    **options,
                )  # fmt: skip
            except KeyboardInterrupt:
                done = ", ".join(one.name for one in questions[: questions.index(question_set)]) or "none"
                raise Interrupted(
                    f"interrupted: the results on {question_set.name} are not kept; recorded in {folder}: {done}. "
                    "Repeat the command with --on for the others."
                ) from None
            new += found.results
            for result in found.results:
                record = record.with_benchmark(result)
                _print_result(console, result)
            data = {**record.data, **fingerprints(found.sources)}
            record = record.model_copy(update={"data": data})
            if existing is None:
                about = {"seconds": time.monotonic() - clock, "machine": machine(reasoner.gpu)}
                record = record.model_copy(update=about)
            write_samples([*other_samples(folder, found.samples), *found.samples], folder)
            write_record(record, folder)
    return record, folder, new


def _beside(questions: Questions, record: RunRecord, console: Console) -> Questions:
    """Rename questions whose name the record has for other content, so that the record has both results."""
    [(place, mark)] = fingerprints([questions.record]).items()
    known = [result for result in record.benchmarks if result.name == questions.name]
    same_size = all(result.n == len(questions.examples) or result.limit for result in known)
    if not known or (record.data.get(place, mark) == mark and (same_size or questions.limit)):
        return questions
    name = f"{questions.name} ({mark if ' ' in mark else mark[:8]})"
    print_text(
        console, f"{questions.name}: the record has results for other data of this name; these are named '{name}'"
    )
    return replace(questions, name=name, record={**questions.record, "source": name})


def _print_result(console: Console, result: BenchmarkResult) -> None:
    if not console.is_terminal:
        seconds = result.ms_per_question * result.n / 1000
        print_text(console, f"{result.name}: {result.accuracy:.1f} % of {result.n:,} questions, {seconds:.0f} s")


def _domain(reference: str) -> Domain:
    from ruplar import plugins
    from ruplar.model.store import find_model, read_metadata

    named = read_metadata(find_model(reference)).domain
    return plugins.make("domains", named.name, named.settings)


def check_same_model(record: RunRecord, metadata: ModelMetadata, weights: str, folder: Path) -> None:
    """Refuse to add results to the record of another model."""
    from ruplar.report.model_records import differing

    wrong = differing(metadata, record) or (["weights"] if record.weights not in ("", weights) else [])
    if wrong:
        raise UserError(
            f"{folder}: has results of '{record.name}', another model: {', '.join(wrong)} differ. Choose another --output."
        )


def weights_of(model: Path) -> str:
    """Hash the weights of a model, and of those that it is an adapter on."""
    from ruplar.model.store import start_mark

    return "".join(start_mark(str(model)).values())


def fingerprints(sources: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Return the fingerprints of the benchmarks' content."""
    from ruplar.train.dataset import fingerprint_of

    return {f"{source.get('split', 'test')}: {source['source']}": fingerprint_of(source) for source in sources}


def other_samples(folder: Path, fresh: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the samples in a folder that new ones do not replace."""
    from ruplar.evaluate.record import GREEDY
    from ruplar.evaluate.samples import SAMPLES, read_samples, result_key

    replaced = {result_key(row, GREEDY) for row in fresh}
    found = read_samples(folder) if (folder / SAMPLES).is_file() else []
    return [row for row in found if result_key(row, GREEDY) not in replaced]


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
    """Ablate the latents of a model on each dataset; return name → one row per mode, real latents first.

    All datasets are read before the weights.
    """
    from ruplar.data.sources import open_source
    from ruplar.evaluate.ablate import ablate
    from ruplar.reasoner import LatentReasoner

    domain = _domain(reference)
    sets = [(source.name, open_source(source, domain, need_steps=False, data_dir=data_dir)) for source in on]
    reasoner = LatentReasoner.from_pretrained(reference, device)
    found = {}
    for name, loaded in sets:
        with counting(console) as update:
            found[name] = ablate(
                reasoner,
                loaded.examples[: limit or len(loaded.examples)],
                seed=seed,
                batch_size=batch_size,
                on_progress=update,
            )
    return found


@contextmanager
def counting(console: Console) -> Iterator[Any]:
    """Show one progress bar per name; yields a function of (name, done, total)."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    name = TextColumn("{task.description}", markup=False)
    columns = (name, BarColumn(bar_width=20), MofNCompleteColumn(), TimeRemainingColumn())
    tasks: dict[str, Any] = {}
    with Progress(*columns, console=console) as progress:

        def update(name: str, done: int, total: int) -> None:
            if name not in tasks:
                tasks[name] = progress.add_task(name, total=total)
            progress.update(tasks[name], completed=done)

        yield update


def _record(name: str, config: dict[str, Any], seed: int, started: datetime, device: str, **figures: Any) -> RunRecord:
    import torch

    from ruplar.evaluate.record import RunRecord, commit_of, machine, versions

    commit, dirty = commit_of()
    return RunRecord(
        name=name,
        config=config,
        seed=seed,
        commit=commit,
        dirty=dirty,
        versions=versions(),
        machine=machine(torch.cuda.get_device_name(device) if device.startswith("cuda") else None),
        started=started.isoformat(timespec="seconds"),
        **figures,
    )
