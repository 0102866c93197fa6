"""A run ↔ its record, `run.json`: everything needed to trust a number or to reproduce it.

A record is `partial` when a benchmark had a limit, the code had uncommitted changes, or the run did not finish. Partial
records enter no table.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from pydantic import (
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    computed_field,
    field_validator,
    model_validator,
)

from ruplar import __version__, io
from ruplar.config.text import differing
from ruplar.errors import UserError
from ruplar.evaluate.samples import SAMPLES, ResultKey, read_samples, write_samples
from ruplar.evaluate.stats import wilson
from ruplar.io import RECORD
from ruplar.renamed import upgrade
from ruplar.types import Answer, Score

__all__ = [
    "RECORD", "STUDY", "TRY", "ABLATION", "SAMPLES", "BenchmarkResult", "Machine", "RunRecord", "Share", "commit_of", "differences",
    "git", "machine", "read_ablation", "read_record", "read_samples", "study_of", "versions", "write_record", "write_samples",
]  # fmt: skip

STUDY, ABLATION = "study.json", "ablation.json"
TRY = " try "
"""In the label of a try, after that of its row; no row may have it."""
GREEDY = "greedy"
PACKAGE = Path(__file__).parents[1]
PACKAGES = ("torch", "transformers", "peft")
"""Packages whose versions a record names, besides Python and this one."""
EXECUTION = (
    "seed",
    "name",
    "training.dataloader_",
    "training.liger_kernel_config",
    "training.use_liger_kernel",
    "speed.",
    "validation.stop_collapsed",
)
"""Settings in which runs of one row may differ: seed, recipe name, and prefixes of those that only affect speed or stop a run."""


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _drop_computed(cls, data: Any) -> Any:
        """Drop computed fields, written for readers of the file only, and one that version 0.2 wrote."""
        unread = {*cls.model_computed_fields, "reused_from"}
        return {k: v for k, v in data.items() if k not in unread} if isinstance(data, dict) else data


class Share(_Record):
    """A mean in percent with its 95 % interval over questions; None where there is only one."""

    mean: float
    low: float | None
    high: float | None


class BenchmarkResult(_Record):
    """One model on one benchmark.

    `latents`, `answer_tokens`, `forwards` and `prompt_tokens` are means over questions. With several answers per question, `correct` counts
    majorities, and the means are over all answers together with one shared prefill.
    """

    name: str
    n: int = Field(gt=0)
    correct: int = Field(ge=0)
    latents: float = Field(description="Latents, or reasoning tokens of a text method: the paper's #L.")
    answer_tokens: float
    forwards: float = Field(description="Forward passes, including the prefill.")
    prompt_tokens: float | None = Field(None, description="Tokens of the prompt, all processed by the prefill.")
    ms_per_question: float = Field(
        description="Milliseconds per question in batches; from 0.2 the steady state, median pass."
    )
    warm_up_s: float | None = Field(
        None, description="Seconds before the steady state: building the engine, a first batch, capturing graphs."
    )
    ms_batch1: float | None = Field(
        None,
        validation_alias=AliasChoices("ms_batch1", "ms_alone"),  # the name in records of earlier versions
        description="Milliseconds per question at batch size 1, when measured.",
    )
    peak_gb: float | None = Field(None, description="Peak memory of the GPU, else of the process so far.")
    workers: int = Field(1, ge=1, description="Processes that answered in parallel; `ms_per_question` is over all.")
    unreadable: int = Field(0, ge=0, description="Answers that could not be parsed; they count as wrong.")
    halted: float | None = Field(None, ge=0, le=1, description="Share of thoughts that ended before the cap.")
    halted_right: float | None = Field(
        None, ge=0, le=1, description="Share of questions with as many latents as the reference chain has spans."
    )
    limit: int | None = Field(None, description="Set when only the first questions were used.")
    left_out: dict[str, int] = Field({}, description="Reason → number of the benchmark's rows that were skipped.")
    wrong_kept: int = Field(0, ge=0, description="Rows used although their chain or answer is wrong.")
    trained_on: int = Field(0, ge=0, description="Questions that are also in the model's training data.")
    seed: int = 0
    decoding: str = GREEDY
    samples: int = Field(1, ge=1, description="Answers per question; above 1 their majority is graded.")
    pass_at: dict[int, Share] = Field({}, description="k → unbiased estimate of pass@k; sampled runs only.")
    lenient: bool = Field(False, description="Graded by the published code's rule instead of the strict one.")
    frozen_at: str = Field("", description="Commit of the list of rows when a study used this test set; empty: none.")
    evaluated_at: str = Field(
        "",
        description="When a study evaluated on this test set.",
        validation_alias=AliasChoices("evaluated_at", "asked_at"),
    )
    evaluated_again: int = Field(
        0,
        ge=0,
        description="How often the model was evaluated on this test set again; the last answers are here.",
        validation_alias=AliasChoices("evaluated_again", "asked_again"),
    )
    commit: str | None = Field(None, description="Commit of the code that evaluated; null: unknown.")
    dirty: bool = Field(False, description="The code that evaluated had uncommitted changes.")
    added_later: bool = Field(False, description="The row was added after the study's first evaluation on a test set.")

    @model_validator(mode="after")
    def _possible(self) -> BenchmarkResult:
        if self.correct + self.unreadable > self.n:
            raise ValueError(f"{self.correct} right and {self.unreadable} unreadable of {self.n}")
        return self

    @property
    def key(self) -> ResultKey:
        """What identifies a result in a record; `samples.result_key` is that of an answer."""
        return self.name, self.seed, self.lenient, self.decoding

    @computed_field  # type: ignore[prop-decorator]
    @property
    def accuracy(self) -> float:
        """Percent."""
        return 100 * self.correct / self.n

    @computed_field  # type: ignore[prop-decorator]
    @property
    def low(self) -> float:
        """Lower bound of the 95 % Wilson interval, percent."""
        return 100 * wilson(self.correct, self.n).low

    @computed_field  # type: ignore[prop-decorator]
    @property
    def high(self) -> float:
        """Upper bound of the 95 % Wilson interval, percent."""
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
        """Summarise answers and their scores, produced in `seconds`; `about`: limit, seed, decoding."""
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
    """The hardware of a run."""

    cpu: str
    cores: int
    memory_gb: float | None
    gpu: str | None = None


class RunRecord(_Record):
    """One run: its recipe, environment, data and results."""

    name: str
    study: str = Field("", description="The study it belongs to; rows of one study share a table.")
    config: dict[str, Any]
    overrides: list[str] = []
    seed: int
    commit: str | None
    dirty: bool | None
    versions: dict[str, str]
    machine: Machine
    data: dict[str, str] = Field({}, description="Source → fingerprint of its content.")
    left_out: dict[str, int] = Field({}, description="Reason → number of rows left out.")
    mean_of: list[int] = Field([], description="Seeds of a model soup; empty: one training.")
    started: str
    seconds: float = 0
    train_seconds: float | None = None
    peak_gb: float | None = Field(None, description="Peak memory of the GPU, else of the process.")
    weights: str = Field("", description="Hash of the model's weights; empty in older records.")
    model_from: str = Field("", description="Run of another study whose model was reused; empty: none.")
    finished: bool = True
    benchmarks: list[BenchmarkResult] = []

    @field_validator("config")
    @classmethod
    def _complete(cls, config: dict[str, Any]) -> dict[str, Any]:
        """Upgrade renamed settings, so that older records compare with newer ones."""
        return upgrade(config, strict=False)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def partial(self) -> list[str]:
        """Reasons why this run may not enter a table; empty when it may."""
        limited = [b.name for b in self.benchmarks if b.limit is not None]
        reasons = {
            "it did not finish": not self.finished,
            "the code had uncommitted changes": bool(self.dirty) or any(b.dirty for b in self.benchmarks),
            f"only part of {', '.join(limited)} was evaluated": bool(limited),
        }
        return [reason for reason, holds in reasons.items() if holds]

    def with_benchmark(self, result: BenchmarkResult) -> RunRecord:
        """Copy the record with this result added, replacing one of the same name, decoding and grading."""
        others = [b for b in self.benchmarks if b.key != result.key]
        return self.model_copy(update={"benchmarks": [*others, result]})


def write_record(record: RunRecord, folder: str | Path) -> Path:
    """Write `folder/run.json` atomically."""
    return io.write_json(Path(folder) / RECORD, record.model_dump(mode="json"))


def read_record(path: str | Path) -> RunRecord:
    """Read a `run.json`, or the one in a folder."""
    path = Path(path) / RECORD if Path(path).is_dir() else Path(path)
    try:
        return RunRecord.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        raise UserError(f"no {path}; a finished run writes one to its folder.") from None
    except ValidationError as error:
        if any(e["loc"] in ((), ("config",)) for e in error.errors()):  # no JSON object, or one of another kind
            raise UserError(f"{path}: is not the record of a run. Pass a {RECORD}, or a folder with some.") from error
        wrong = [f"{'.'.join(map(str, e['loc'])) or 'file'}: {e['msg']}" for e in error.errors()]
        raise UserError(*wrong, where=str(path)) from error


def study_of(folder: str | Path) -> dict[str, Any]:
    """Read what `ruplar study` wrote about the plan (name, about, rows, on, reference …); {} where there is no study.json."""
    file = Path(folder) / STUDY
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}


def read_ablation(file: str | Path) -> dict[str, list[dict[str, Any]]]:
    """Read an ablation.json → benchmark → one row per mode: of a study (`on` and `rows`), or as `ruplar ablate --json` prints it."""
    try:
        content = json.loads(Path(file).read_text(encoding="utf-8"))
        found = {content["on"]: content["rows"]} if {"on", "rows"} <= content.keys() else content
        if any(not isinstance(row["mode"], str) for rows in found.values() for row in rows):
            raise TypeError("a mode is not a text")
    except (ValueError, TypeError, AttributeError, KeyError) as error:
        raise UserError(f"{file}: not an ablation ({error!r}); `ruplar ablate MODEL --json` prints one.") from error
    return found


def differences(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[str]:
    """Compare two configs → dotted names of the settings in which they differ, except `EXECUTION`."""
    found = differing(first, second)
    return [name for name in found if name not in EXECUTION and not name.startswith(EXECUTION[2:])]


def versions() -> dict[str, str]:
    """List the versions of Python, this package and `PACKAGES`, without importing them."""
    found = {"python": platform.python_version(), "ruplar": __version__}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found


def commit_of(folder: str | Path | None = None) -> tuple[str | None, bool | None]:
    """Read the commit of the code in `folder` (this package by default) and whether it has uncommitted changes.

    (None, None) outside a repository, and for a package inside another repository that does not track it (a `.venv`).
    """
    folder = Path(folder or PACKAGE)
    if not git(folder, "ls-files", "--", "."):
        return None, None
    commit = git(folder, "rev-parse", "HEAD")
    changed = git(folder, "status", "--porcelain", "--", ".")
    return (commit or None), (None if changed is None else bool(changed))


def git(folder: Path, *arguments: str) -> str | None:
    """Return what a git command prints when run in a folder; None where it fails, or git is not installed."""
    try:
        done = subprocess.run(
            ["git", "--no-optional-locks", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=30
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def machine(gpu: str | None = None) -> Machine:
    """Describe this machine; the caller names the GPU it used, if any."""
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.is_file():
        named = (line.partition(":")[2] for line in info.read_text().splitlines() if line.startswith("model name"))
        cpu = next(named, cpu).strip()
    try:
        memory = round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (AttributeError, ValueError, OSError):
        memory = None
    return Machine(cpu=cpu, cores=os.cpu_count() or 1, memory_gb=memory, gpu=gpu)
