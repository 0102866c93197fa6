"""A recipe's data entry → examples: a file, a known or Hub set, or the built-in word problems.

{source: gsm8k-aug-train}                        read from a file or the Hub (`chains/places.py` says where)
{source: word-problems, count: 1000, seed: 1}    written on demand: problem i is a function of (seed, i), so a set
                                                 of millions takes no memory

Nothing is read before it is asked for, and no entry may hold settings that its kind of source would pass over.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

from ruplar.chains.formats import FORMATS
from ruplar.chains.read import Duplicates, read
from ruplar.domains.base import Domain
from ruplar.errors import unknown
from ruplar.records import Example
from ruplar.settings import Settings

Split = Literal["train", "valid", "test"]

GENERATOR = "word-problems"
TEST_SEED = 20_260_509
"""Seed of the word problems that `--on word-problems` asks; no recipe may train on it."""
TEST_COUNT = 500
HELD_OUT = "held-out"
"""`word-problems:held-out`: the families that no packaged model was trained on."""


class SourceConfig(Settings):
    """Where chains come from."""

    source: str = Field(min_length=1, description="A file, a known set, hub:owner/name, or word-problems[:FAMILY].")
    count: int | None = Field(None, ge=1, description="Take this many; null: all of a file, 500 word problems.")
    seed: int = Field(TEST_SEED, ge=0, description="Which word problems.")
    families: tuple[str, ...] | None = Field(
        None, min_length=1, description="Families of word problems; null: those trained on."
    )
    steps: tuple[int, int] = Field((1, 6), description="Fewest and most steps of a word problem.")
    format: str | None = Field(None, description="Shape of a file's rows; null: found out from the first.")

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

        if self.format is not None:
            yield f"format cannot be set for '{GENERATOR}'"
        for name in self.families or ():
            if name not in word_problems.FAMILIES:
                yield unknown("family", name, word_problems.FAMILIES).rstrip(".")
        if not 1 <= self.steps[0] <= self.steps[1]:
            yield f"steps must be [fewest, most] from 1 on, got {list(self.steps)}"

    def _unreadable(self) -> Iterator[str]:
        own = type(self).model_fields
        given = [name for name in ("seed", "families", "steps") if getattr(self, name) != own[name].default]
        if given:
            yield f"{' and '.join(given)} can be set for '{GENERATOR}' only, not for '{self.source}'"
        if self.format is not None and self.format not in FORMATS:
            yield unknown("format", self.format, FORMATS).rstrip(".")

    @property
    def is_generated(self) -> bool:
        """Whether the problems are written on demand."""
        return self.source == GENERATOR

    @property
    def name(self) -> str:
        """What tables call it."""
        if self.is_generated:
            return GENERATOR + (":" + "+".join(self.families) if self.families else "")
        return Path(self.source).name.split(".")[0] if Path(self.source).suffix else self.source


def _held_out() -> tuple[str, ...]:
    from ruplar.chains import word_problems

    return tuple(word_problems.HELD_OUT)


@dataclass(frozen=True)
class WrittenProblems(Sequence):
    """Word problems of one part (train, valid, test) as a sequence that writes each one when asked for it."""

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
        from ruplar.chains.word_problems import generate

        c = self.config
        return generate(count, c.seed, families=c.families, steps=c.steps, start=start, split=self.split)


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
) -> Opened:
    """The examples of one entry.

    Args:
        config: The entry.
        domain: What a step is.
        need_steps: Whether a row without a step is bad.
        skip_bad: Leave bad rows out instead of stopping.
        duplicates: What to do with rows that repeat a question.
        data_dir: Folder with the files of known sets.
        split: What word problems are for: those of one part never occur in another, whatever their seeds.

    Raises:
        UserError: The source cannot be found or read, or holds bad rows and `skip_bad` is off.
    """
    if config.is_generated:
        problems = WrittenProblems(config, split)
        return Opened(
            problems,
            {"source": config.name, "split": split, "seed": config.seed, "examples": len(problems), "left_out": {}},
        )
    reading = read(
        config.source,
        domain,
        format=config.format,
        need_steps=need_steps,
        skip_bad=skip_bad,
        limit=config.count,
        duplicates=duplicates,
        data_dir=data_dir,
    )
    return Opened(reading.examples, reading.record())
