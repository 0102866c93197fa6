"""A recipe's data entry → examples: a file, a known or Hub set, or problems of a built-in generator.

{source: gsm8k-aug-train}                        read from a file or the Hub (`chains/places.py` says where)
{source: word-problems, count: 1000, seed: 1}    written on demand: problem i is a function of (seed, i), so a set
                                                 of millions takes no memory; also date-problems, logic-problems
{source: mine.jsonl, split_by: scenario}         the part of a file that the entry stands for (train, valid, test), no
                                                 scenario in two of them (`chains/scenarios.py`)

Nothing is read before it is asked for, and no entry may hold settings that its kind of source would pass over.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

from ruplar.chains import scenarios
from ruplar.chains.draws import Split
from ruplar.chains.formats import FORMATS
from ruplar.chains.read import SKIP_WITH, Duplicates, read
from ruplar.domains.base import Domain
from ruplar.errors import UserError, unknown
from ruplar.records import Example
from ruplar.settings import Settings

GENERATOR = "word-problems"
GENERATORS = {GENERATOR: "arithmetic", "date-problems": "dates", "logic-problems": "logic"}
"""Sources that are written on demand → the packaged domain their chains are of."""
TEST_SEED = 20_260_509
"""Seed of the word problems that `--on word-problems` asks; no recipe may train on it."""
TEST_COUNT = 500
HELD_OUT = "held-out"
"""`word-problems:held-out`: the families that no packaged model was trained on."""


class SourceConfig(Settings):
    """Where chains come from."""

    source: str = Field(
        min_length=1,
        description="A file, a known set, hub:owner/name, word-problems[:FAMILY], date-problems or logic-problems.",
    )
    count: int | None = Field(None, ge=1, description="Take this many; null: all of a file, 500 written problems.")
    seed: int = Field(TEST_SEED, ge=0, description="Which written problems.")
    families: tuple[str, ...] | None = Field(
        None, min_length=1, description="Families of word problems; null: those trained on."
    )
    steps: tuple[int, int] = Field((1, 6), description="Fewest and most steps of a written problem.")
    format: str | None = Field(None, description="Shape of a file's rows; null: found out from the first.")
    split_by: Literal["scenario"] | None = Field(
        None, description="Divide a file into train, valid and test by what its questions tell; null: all of it."
    )

    @model_validator(mode="before")
    @classmethod
    def _bare_name(cls, value: Any) -> Any:
        """A bare string is a source; `word-problems:bakery` names a family, `word-problems:held-out` those held out."""
        value = {"source": value} if isinstance(value, str) else value
        if isinstance(value, dict) and str(value.get("source", "")).startswith(f"{GENERATOR}:"):
            family = value["source"].partition(":")[2]
            if value.get("families"):
                raise ValueError(f"'{value['source']}' names its family already; drop families")
            value = {**value, "source": GENERATOR, "families": _held_out() if family == HELD_OUT else (family,)}
        if isinstance(value, dict) and value.get("source") in scenarios.JOINED:
            value = {"split_by": "scenario", **value}
        return value

    @model_validator(mode="after")
    def _fits(self) -> SourceConfig:
        """Settings of the other kind of source are refused, not passed over."""
        wrong = list(self._unwritable() if self.is_generated else self._unreadable())
        if wrong:
            raise ValueError("; ".join(wrong))
        return self

    def _unwritable(self) -> Iterator[str]:
        from ruplar.chains import word_problems

        for name in ("format", "split_by"):
            if getattr(self, name) is not None:
                yield f"{name} cannot be set for '{self.source}'"
        if self.families and self.source != GENERATOR:
            yield f"families can be set for '{GENERATOR}' only, not for '{self.source}'"
        for name in self.families or ():
            if name not in word_problems.FAMILIES:
                yield unknown("family", name, word_problems.FAMILIES).rstrip(".")
        if not 1 <= self.steps[0] <= self.steps[1]:
            yield f"steps must be [fewest, most] from 1 on, got {list(self.steps)}"

    def _unreadable(self) -> Iterator[str]:
        own = type(self).model_fields
        given = [name for name in ("seed", "families", "steps") if getattr(self, name) != own[name].default]
        if given:
            written = " or ".join(f"'{name}'" for name in ([GENERATOR] if "families" in given else GENERATORS))
            yield f"{' and '.join(given)} can be set for {written} only, not for '{self.source}'"
        if self.format is not None and self.format not in FORMATS:
            yield unknown("format", self.format, FORMATS).rstrip(".")
        if self.source.partition(":")[0] in GENERATORS:
            yield f"'{self.source.partition(':')[0]}' has no families; write it without '{self.source.partition(':')[2]}'"
        if self.source in scenarios.JOINED and self.split_by is None:
            yield f"'{self.source}' is divided by scenario; drop split_by"

    @property
    def is_generated(self) -> bool:
        """Whether the problems are written on demand."""
        return self.source in GENERATORS

    @property
    def name(self) -> str:
        """What tables call it."""
        if self.is_generated:
            return self.source + (":" + "+".join(self.families) if self.families else "")
        return Path(self.source).name.split(".")[0] if Path(self.source).suffix else self.source


def generator(domain: str) -> Callable[..., Iterator[Example]]:
    """A packaged domain's name → its generator: (count, seed, steps=, start=, split=) → examples.

    Raises:
        UserError: No problems are written for it.
    """
    for source, about in GENERATORS.items():
        if about == domain:
            return importlib.import_module(f"ruplar.chains.{source.replace('-', '_')}").generate
    raise UserError(unknown("domain with a generator", domain, GENERATORS.values()))


def _held_out() -> tuple[str, ...]:
    from ruplar.chains import word_problems

    return tuple(word_problems.HELD_OUT)


@dataclass(frozen=True)
class WrittenProblems(Sequence):
    """Problems of one part (train, valid, test) as a sequence that writes each one when asked for it."""

    config: SourceConfig
    split: Split = "test"

    def __len__(self) -> int:
        return self.config.count or TEST_COUNT

    def __getitem__(self, index):
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        return next(self._from(index % len(self), 1))

    def __iter__(self) -> Iterator[Example]:
        return self._from(0, len(self))

    def _from(self, start: int, count: int) -> Iterator[Example]:
        c = self.config
        families = {"families": c.families} if c.source == GENERATOR else {}
        generate = generator(GENERATORS[c.source])
        return generate(count, c.seed, steps=c.steps, start=start, split=self.split, **families)


@dataclass(frozen=True)
class Opened:
    """Examples ready to use, and what run.json keeps of where they came from."""

    examples: Sequence[Example]
    record: dict[str, Any]


def open_source(
    config: SourceConfig,
    domain: Domain,
    *,
    need_steps: bool = True,
    skip_bad: bool = False,
    duplicates: Duplicates = "keep",
    data_dir: str | Path | None = None,
    split: Split = "test",
    skip_with: str = SKIP_WITH,
) -> Opened:
    """The examples of one entry.

    Args:
        config: The entry.
        domain: What a step is.
        need_steps: Whether a row without a step is bad.
        skip_bad: Leave bad rows out instead of stopping.
        duplicates: What to do with rows that repeat a question.
        data_dir: Folder with the files of known sets.
        split: What the examples are for. Written problems of one part never occur in another, whatever their seeds; a
            file that is split by scenario gives this part of it.
        skip_with: How the user sets `skip_bad`, for the message that refuses bad rows.

    Raises:
        UserError: The source cannot be found or read, holds bad rows and `skip_bad` is off, or is of another domain.
    """
    if config.is_generated:
        _check_domain(config.source, domain)
        problems = WrittenProblems(config, split)
        return Opened(
            problems,
            {"source": config.name, "split": split, "seed": config.seed, "examples": len(problems), "left_out": {}},
        )
    # a part is chosen from the whole, so no limit before that
    limit = config.count if config.split_by is None else None
    readings = [
        read(
            name,
            domain,
            format=config.format,
            need_steps=need_steps,
            skip_bad=skip_bad,
            limit=limit,
            duplicates=duplicates,
            data_dir=data_dir,
            skip_with=skip_with,
        )
        for name in scenarios.JOINED.get(config.source, (config.source,))
    ]
    if config.split_by is not None:
        scenarios.keep_part(readings, domain, split, config.name)
    wrong = scenarios.wrong_chains(readings, domain)
    # a benchmark is asked as it was published, and says how many of its answers are wrong; a part of our own has none
    if split != "test" or config.split_by is not None:
        scenarios.leave_out_wrong(readings, wrong, skip_bad or split == "test")
    examples = [example for reading in readings for example in reading.examples][: config.count]
    whole = config.split_by is None
    record = readings[0].record() if whole else scenarios.record_of(readings, domain, split, config.name)
    kept = sum(example.source in wrong for example in examples)
    return Opened(examples, {**record, "examples": len(examples), **({"wrong_kept": kept} if kept else {})})


def _check_domain(source: str, domain: Domain) -> None:
    """Refuse to read one packaged domain's chains by another's rules; a domain from outside may read what it likes."""
    package, _, name = type(domain).__module__.rpartition(".")
    if package == "ruplar.domains" and name != GENERATORS[source]:
        raise UserError(
            f"'{source}' are chains of the domain '{GENERATORS[source]}', not '{name}'. Set data.domain: {GENERATORS[source]}."
        )
