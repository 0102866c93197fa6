"""What a run did → `run.json` and `samples.jsonl.gz`: everything needed to trust a number or to make it again.

A record is `partial` when a benchmark had a limit, the code had uncommitted changes, or the run did not finish. Partial
records are kept apart (`results/partial/`) and no table takes them.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import platform
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, computed_field, field_validator, model_validator

from ruplar import __version__
from ruplar.errors import UserError
from ruplar.evaluate.stats import wilson
from ruplar.renamed import upgrade
from ruplar.types import Answer, Score

RECORD, STUDY = "run.json", "study.json"
GREEDY = "greedy"
SAMPLES = "samples.jsonl.gz"
_WHICH, _ASKED = ("benchmark", "index"), ("source", "question", "marked", "steps")
PACKAGES = ("torch", "transformers", "peft")
"""What a run's versions name, besides Python and this package."""
EXECUTION = ("seed", "name", "training.dataloader_", "speed.", "validation.stop_collapsed")
"""Settings in which runs of one row may differ: seed, recipe name, and prefixes of those that only affect speed or stop a run."""


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _drop_computed(cls, data: Any) -> Any:
        """Computed fields are written for readers of the file, and computed anew when it is read."""
        return (
            {k: v for k, v in data.items() if k not in cls.model_computed_fields} if isinstance(data, dict) else data
        )


class Share(_Record):
    """A mean in percent with its 95 % interval over questions; None where there is only one."""

    mean: float
    low: float | None
    high: float | None


class BenchmarkResult(_Record):
    """One model on one set of questions.

    Counts are of questions; `latents`, `answer_tokens` and `forwards` are means over them. Of several answers to each
    question, `correct` counts the majority's, and those means are of all of them together, the prefill counted once.
    """

    name: str
    n: int = Field(gt=0)
    correct: int = Field(ge=0)
    latents: float = Field(description="Soft tokens fed, or reasoning tokens of a text method: the paper's #L.")
    answer_tokens: float
    forwards: float = Field(description="Model calls, the prefill included.")
    ms_per_question: float
    ms_alone: float | None = Field(None, description="The same for questions asked one at a time, when measured.")
    peak_gb: float | None = Field(
        None, description="Most memory held: the GPU's, or the process's so far without one."
    )
    unreadable: int = Field(0, ge=0, description="Answers nothing could be read from; they count as wrong.")
    halted: float | None = Field(
        None, ge=0, le=1, description="Share of thoughts that ended by themselves, not at the cap."
    )
    halted_right: float | None = Field(
        None,
        ge=0,
        le=1,
        description="Share with as many soft tokens as the marked chain asks for, where one is marked.",
    )
    limit: int | None = Field(None, description="Set when only the first questions were asked.")
    left_out: dict[str, int] = Field({}, description="Why → how many of the set's rows were not asked.")
    wrong_kept: int = Field(0, ge=0, description="Rows asked as they are although their chain or answer is wrong.")
    seed: int = 0
    decoding: str = "greedy"
    samples: int = Field(1, ge=1, description="Answers to each question; above 1 their majority is graded.")
    pass_at: dict[int, Share] = Field(
        {}, description="k → how often one of k answers is right, estimated without bias; of sampled runs only."
    )
    lenient: bool = Field(False, description="Graded by the published code's rule instead of the strict one.")

    @model_validator(mode="after")
    def _possible(self) -> BenchmarkResult:
        if self.correct + self.unreadable > self.n:
            raise ValueError(f"{self.correct} right and {self.unreadable} unreadable of {self.n}")
        return self

    @computed_field  # type: ignore[prop-decorator]
    @property
    def accuracy(self) -> float:
        """Percent."""
        return 100 * self.correct / self.n

    @computed_field  # type: ignore[prop-decorator]
    @property
    def low(self) -> float:
        """Lower end of the 95 % Wilson interval, percent."""
        return 100 * wilson(self.correct, self.n).low

    @computed_field  # type: ignore[prop-decorator]
    @property
    def high(self) -> float:
        """Upper end of the 95 % Wilson interval, percent."""
        return 100 * wilson(self.correct, self.n).high

    @computed_field  # type: ignore[prop-decorator]
    @property
    def acc_per_latent(self) -> float | None:
        """Accuracy over latents, the paper's Acc/#L; None without latents."""
        return self.accuracy / self.latents if self.latents else None

    @classmethod
    def of(
        cls, name: str, answers: Sequence[Answer], scores: Sequence[Score], seconds: float, **about: Any
    ) -> BenchmarkResult:
        """Answers and their scores, made in `seconds` altogether → the result; `about`: limit, seed, decoding."""
        n = len(answers)
        if n == 0 or n != len(scores):
            raise ValueError(f"{n} answers and {len(scores)} scores")
        return cls(
            name=name,
            n=n,
            correct=sum(s.correct for s in scores),
            unreadable=sum(s.found is None for s in scores),
            latents=sum(a.latent_count for a in answers) / n,
            answer_tokens=sum(a.answer_tokens for a in answers) / n,
            forwards=sum(a.forwards for a in answers) / n,
            halted=sum(a.halted for a in answers) / n,
            ms_per_question=1000 * seconds / n,
            **about,
        )


class Machine(_Record):
    """What it ran on."""

    cpu: str
    cores: int
    memory_gb: float | None
    gpu: str | None = None


class RunRecord(_Record):
    """One run, from recipe to scores."""

    name: str
    study: str = Field("", description="The study it belongs to; runs of one study share a table.")
    config: dict[str, Any]
    overrides: list[str] = []
    seed: int
    commit: str | None
    dirty: bool | None
    versions: dict[str, str]
    machine: Machine
    data: dict[str, str] = Field({}, description="Source → fingerprint of its content.")
    left_out: dict[str, int] = Field({}, description="Why → how many rows were left out.")
    mean_of: list[int] = Field(
        [], description="Seeds of the trainings whose mean the model is; empty: one training's."
    )
    reused_from: str = Field("", description="STUDY/CELL whose record this is a copy of; empty: made for this study.")
    started: str
    seconds: float = 0
    train_seconds: float | None = None
    peak_gb: float | None = Field(None, description="Most memory held: the GPU's, or the process's without one.")
    finished: bool = True
    benchmarks: list[BenchmarkResult] = []

    @field_validator("config")
    @classmethod
    def _complete(cls, config: dict[str, Any]) -> dict[str, Any]:
        """Return the config in today's terms, so that an older record compares with newer ones."""
        return upgrade(config, strict=False)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def partial(self) -> list[str]:
        """Why this run may not enter a table; empty when it may."""
        limited = [b.name for b in self.benchmarks if b.limit is not None]
        reasons = {
            "it did not finish": not self.finished,
            "the code had uncommitted changes": bool(self.dirty),
            f"only part of {', '.join(limited)} was asked": bool(limited),
        }
        return [reason for reason, holds in reasons.items() if holds]

    def with_benchmark(self, result: BenchmarkResult) -> RunRecord:
        """The record with this result added, in place of one of the same name, decoding and grading."""

        def asked(b: BenchmarkResult) -> tuple[str, str, int, bool]:
            return b.name, b.decoding, b.seed, b.lenient

        kept = [b for b in self.benchmarks if asked(b) != asked(result)]
        return self.model_copy(update={"benchmarks": [*kept, result]})


def write_record(record: RunRecord, folder: str | Path) -> Path:
    """`folder/run.json`, written whole or not at all."""
    text = json.dumps(record.model_dump(mode="json"), indent=2, ensure_ascii=False) + "\n"
    return _write(Path(folder) / RECORD, text.encode())


def write_samples(rows: Iterable[Mapping[str, Any]], folder: str | Path, share: bool = False) -> Path:
    """`folder/samples.jsonl.gz`, one row a question; the same rows give the same bytes.

    Args:
        rows: What `evaluate` gave.
        folder: Of the run.
        share: What was asked goes into a file beside the folder, named by its content, so that the runs of a study share it:
            it is most of what there is to write.
    """
    rows = list(rows)
    if share:
        asked: dict[tuple[str, int], dict[str, Any]] = {}
        for row in rows:
            asked.setdefault((row["benchmark"], row["index"]), _asked(row))
        content = _lines(asked.values())
        name = f"questions-{hashlib.sha256(content).hexdigest()[:12]}.jsonl.gz"
        _write(_beside(folder) / name, gzip.compress(content, mtime=0))
        rows = [
            {**{k: v for k, v in row.items() if k not in _ASKED}, "asked": name}
            if asked[row["benchmark"], row["index"]] == _asked(row)
            else row  # another question under the same name stays where it is
            for row in rows
        ]
    return _write(Path(folder) / SAMPLES, gzip.compress(_lines(rows), mtime=0))


def read_samples(folder: str | Path) -> list[dict[str, Any]]:
    """The rows given to `write_samples`.

    Raises:
        UserError: The file with their questions is not where it was put.
    """
    rows = _read_lines(Path(folder) / SAMPLES)
    shared: dict[str, Mapping[tuple[str, int], dict[str, Any]]] = {}
    for row in rows:
        name = row.pop("asked", None)
        if name is None:
            continue
        if name not in shared:
            file = _beside(folder) / name
            if not file.is_file():
                raise UserError(
                    f"{Path(folder) / SAMPLES}: its questions are in {file}, which is missing. Bring it too."
                )
            shared[name] = _questions(file, file.stat().st_mtime_ns)
        row.update(shared[name][row["benchmark"], row["index"]])
    return rows


@lru_cache(maxsize=4)
def _questions(file: Path, written: int) -> Mapping[tuple[str, int], dict[str, Any]]:
    """Benchmark and index → what was asked; the runs of a study share the file, so it is read once for all of them."""
    return {(one["benchmark"], one["index"]): one for one in _read_lines(file)}


def _asked(row: Mapping[str, Any]) -> dict[str, Any]:
    """What a row says of its question; rows of older runs may say less."""
    return {key: row[key] for key in (*_WHICH, *_ASKED) if key in row}


def _beside(folder: str | Path) -> Path:
    """The folder that holds it; `.` names no such by itself."""
    return Path(folder).resolve().parent


def _lines(rows: Iterable[Mapping[str, Any]]) -> bytes:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


def _read_lines(file: Path) -> list[dict[str, Any]]:
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def read_record(path: str | Path) -> RunRecord:
    """A `run.json`, or the folder that holds one → the record.

    Raises:
        UserError: It is missing, cut short, or not a record.
    """
    path = Path(path) / RECORD if Path(path).is_dir() else Path(path)
    try:
        return RunRecord.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        raise UserError(f"no {path}; a finished run leaves one in its folder.") from None
    except ValidationError as error:
        wrong = [f"{'.'.join(map(str, e['loc'])) or 'file'}: {e['msg']}" for e in error.errors()]
        raise UserError(*wrong, where=str(path)) from error


def results_folder(root: str | Path, record: RunRecord) -> Path:
    """Where a record belongs: `root/NAME-seedN`, or `root/partial/NAME-seedN`."""
    return Path(root) / ("partial" if record.partial else "") / f"{record.name}-seed{record.seed}"


def _write(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_bytes(content)
    os.replace(beside, path)
    return path


def differences(first: Mapping[str, Any], second: Mapping[str, Any], prefix: str = "") -> list[str]:
    """Compare two configs → dotted names of the settings in which they differ, except `EXECUTION`."""
    found = []
    for key in sorted({*first, *second}):
        a, b, name = first.get(key), second.get(key), f"{prefix}{key}"
        if isinstance(a, Mapping) and isinstance(b, Mapping):
            found += differences(a, b, f"{name}.")
        elif a != b and name not in EXECUTION and not name.startswith(EXECUTION[2:]):
            found.append(name)
    return found


def is_complete(record: RunRecord, on: Mapping[str, int | None]) -> bool:
    """Whether a record has a greedy, strictly graded result for every benchmark.

    Args:
        record: The run.
        on: Benchmark → how many questions it must have; None: any number.
    """
    asked = {result.name: result.n for result in record.benchmarks if result.decoding == GREEDY and not result.lenient}
    return all(name in asked and count in (None, asked[name]) for name, count in on.items())


def versions() -> dict[str, str]:
    """Python and the packages a number depends on; read without importing them."""
    found = {"python": platform.python_version(), "ruplar": __version__}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found


def commit_of(folder: str | Path | None = None) -> tuple[str | None, bool | None]:
    """The commit of the code in `folder` (this package by default) and whether it has changed since.

    (None, None) outside a repository, and for a package that merely lies inside somebody else's (a `.venv`, say).
    """
    folder = Path(folder or Path(__file__).parents[1])
    if not _git(folder, "ls-files", "--", "."):
        return None, None
    commit = _git(folder, "rev-parse", "HEAD")
    changed = _git(folder, "status", "--porcelain", "--", ".")
    return (commit or None), (None if changed is None else bool(changed))


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def machine(gpu: str | None = None) -> Machine:
    """This machine; the caller names the GPU it used, if any."""
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.is_file():
        named = (
            line.split(":", 1)[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")
        )
        cpu = next(named, cpu)
    try:
        memory = round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (AttributeError, ValueError, OSError):
        memory = None
    return Machine(cpu=cpu, cores=os.cpu_count() or 1, memory_gb=memory, gpu=gpu)
