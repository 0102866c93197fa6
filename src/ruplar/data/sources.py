"""A recipe's data entry → examples: a file, a known or Hub set, or problems of a built-in generator.

{source: gsm8k-aug-train}                        read from a file or the Hub (`chains/places.py` says where)
{source: word-problems, count: 1000, seed: 1}    written on demand: problem i is a function of (seed, i), so a set
                                                 of millions takes no memory; also drills, date-problems, logic-problems,
                                                 logic-ways, logic-lookups
{source: gsm8k-train, augment: 60, seed: 1}      up to 60 problems of each chain, which tell it with other numbers
                                                 (`chains/augment`); the chains themselves are another entry
{source: mine.jsonl, split_by: scenario}         the part of a file that the entry stands for (train, valid, test), no
                                                 scenario in two of them (`chains/scenarios.py`)

Nothing is read before it is asked for, and no entry may hold settings that its kind of source would pass over.
"""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from pydantic import Field, model_validator

from ruplar.data import scenarios
from ruplar.data.augment import LARGE, build
from ruplar.data.formats import FORMATS
from ruplar.data.read import SKIP_WITH, Duplicates, ReadResult, read
from ruplar.domains.base import Domain
from ruplar.errors import UserError, unknown
from ruplar.problems.seeding import Split
from ruplar.settings import Settings
from ruplar.types import Example

GENERATOR = "word-problems"
GENERATORS = {
    GENERATOR: "arithmetic",
    "drills": "arithmetic",
    "date-problems": "dates",
    "logic-problems": "logic",
    "logic-ways": "logic",
    "logic-lookups": "logic",
}
"""Sources that are written on demand → the packaged domain their chains are of."""
TEST_SEED = 20_260_509
"""Seed of the word problems that `--on word-problems` asks; no recipe may train on it."""
TEST_COUNT = 500
HELD_OUT, SHORT, SITUATIONS = "held-out", "short", "situations"
"""`word-problems:held-out`: the families that no packaged model was trained on; `:short`: those of one or two steps; `:situations`:
short ones in many more words."""


Refuse = Callable[[Example], str | None]
"""Example → why it may not be trained on, or None."""


class SourceConfig(Settings):
    """Where chains come from."""

    source: str = Field(
        min_length=1,
        description="A file, a known set, hub:owner/name, word-problems[:FAMILY], drills, date-problems, logic-problems, logic-ways or logic-lookups.",
    )
    count: int | None = Field(None, ge=1, description="Take this many; null: all of a file, 500 written problems.")
    seed: int = Field(TEST_SEED, ge=0, description="Which written or augmented problems.")
    families: tuple[str, ...] | None = Field(
        None, min_length=1, description="Families of word problems; null: those trained on."
    )
    steps: tuple[int, int] = Field((1, 6), description="Fewest and most steps of a written problem.")
    format: str | None = Field(None, description="Shape of a file's rows; null: found out from the first.")
    split_by: Literal["scenario"] | None = Field(
        None, description="Divide a file into train, valid and test by what its questions tell; null: all of it."
    )
    augment: int | None = Field(
        None, ge=1, description="Instead of each chain up to so many that tell it with other numbers; null: the chain."
    )
    large: float = Field(LARGE, ge=0, le=1, description="Share of augmented problems with a number of 4 to 7 digits.")

    @model_validator(mode="before")
    @classmethod
    def _bare_name(cls, value: Any) -> Any:
        """A bare string is a source; `word-problems:bakery` names a family, `:held-out`, `:short` and `:situations` several."""
        value = {"source": value} if isinstance(value, str) else value
        if isinstance(value, dict) and str(value.get("source", "")).startswith(f"{GENERATOR}:"):
            family = value["source"].partition(":")[2]
            if value.get("families"):
                raise ValueError(f"'{value['source']}' names its family already; drop families")
            value = {**value, "source": GENERATOR, "families": group(family)}
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
        from ruplar.problems import word_problems

        for name in ("format", "split_by", "augment", "large"):
            if getattr(self, name) != type(self).model_fields[name].default:
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
        drawn = ("families", "steps") if self.augment else ("seed", "families", "steps")
        given = [name for name in drawn if getattr(self, name) != own[name].default]
        if given:
            written = " or ".join(f"'{name}'" for name in ([GENERATOR] if "families" in given else GENERATORS))
            yield f"{' and '.join(given)} can be set for {written} only, not for '{self.source}'"
        if self.augment is None and self.large != LARGE:
            yield f"large can be set together with augment only, not for '{self.source}' alone"
        if self.augment and self.split_by is not None:
            yield "augment and split_by cannot be set together"
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
            for some in (SHORT, SITUATIONS):
                if self.families and self.families == group(some):
                    return f"{self.source}:{some}"
            return self.source + (":" + "+".join(self.families) if self.families else "")
        name = Path(self.source).name.split(".")[0] if Path(self.source).suffix else self.source
        return f"{name}, augmented" if self.augment else name


def generator(domain: str) -> Callable[..., Iterator[Example]]:
    """A packaged domain's name → its generator: (count, seed, steps=, start=, split=) → examples.

    Raises:
        UserError: No problems are written for it.
    """
    for source, about in GENERATORS.items():
        if about == domain:
            return _generator(source).generate
    raise UserError(unknown("domain with a generator", domain, GENERATORS.values()))


def _generator(source: str) -> ModuleType:
    return importlib.import_module(f"ruplar.problems.{source.replace('-', '_')}")


def _revised(source: str) -> dict[str, int]:
    """What a record must say besides the seed: which revision of a generator wrote the problems, after the first."""
    revision = getattr(_generator(source), "REVISION", 1)
    return {"revision": revision} if revision > 1 else {}


def group(name: str) -> tuple[str, ...]:
    """What stands behind `word-problems:` → the families meant."""
    from ruplar.problems import word_problems

    groups = {HELD_OUT: word_problems.HELD_OUT, SHORT: word_problems.SHORT, SITUATIONS: word_problems.SITUATIONS}
    return tuple(groups.get(name, (name,)))


@dataclass(frozen=True)
class GeneratedProblems(Sequence):
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
        return _generator(c.source).generate(count, c.seed, steps=c.steps, start=start, split=self.split, **families)


@dataclass(frozen=True)
class LoadedSource:
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
    refuse: Refuse | None = None,
) -> LoadedSource:
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
        refuse: Says why a chain may not be augmented; None where it may. Elsewhere it is for the caller to ask.

    Raises:
        UserError: The source cannot be found or read, holds bad rows and `skip_bad` is off, or is of another domain.
    """
    if config.augment and split != "train":
        raise UserError(f"'{config.source}': augment makes training data; questions are asked as they were written.")
    if config.is_generated:
        _check_domain(config.source, domain)
        problems = GeneratedProblems(config, split)
        return LoadedSource(
            problems,
            {"source": config.name, "split": split, "seed": config.seed, "examples": len(problems), "left_out": {}}
            | _revised(config.source),
        )
    # a variant is a function of its chain's row, so the rows are the same for all methods
    need_steps = need_steps or bool(config.augment)
    # a part is chosen from the whole, so no limit before that
    limit = config.count if config.split_by is None and not config.augment else None
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
    if config.augment:
        return _augmented(config, readings[0], refuse)
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
    return LoadedSource(examples, {**record, "examples": len(examples), **({"wrong_kept": kept} if kept else {})})


def _augmented(config: SourceConfig, reading: ReadResult, refuse: Refuse | None) -> LoadedSource:
    """What was read → problems that tell it with other numbers."""
    assert config.augment is not None
    found, tally = build(
        reading.examples, config.seed, count=config.count, per_chain=config.augment, large=config.large, refuse=refuse
    )
    record = {
        **reading.record(),
        "source": config.name,
        "sha256": found.sha256,
        "questions_sha256": None,
        "of_sha256": reading.record()["sha256"] or reading.record()["questions_sha256"],
        "seed": config.seed,
        "chains_used": tally.used,
        "examples": len(found),
    }
    # the chains themselves may be an entry too: what that one leaves out is not counted with what cannot be told again
    left_out = Counter(record["left_out"]) + tally.left_out
    record["left_out"] = {f"not augmented: {why}": n for why, n in left_out.items()}
    if not len(found):
        why = "; ".join(f"{n} {reason}" for reason, n in tally.left_out.most_common())
        raise UserError(f"{config.source}: no chain can be told with other numbers: {why}.")
    return LoadedSource(found, record)


def _check_domain(source: str, domain: Domain) -> None:
    """Refuse to read one packaged domain's chains by another's rules; a domain from outside may read what it likes."""
    package, _, name = type(domain).__module__.rpartition(".")
    if package == "ruplar.domains" and name != GENERATORS[source]:
        raise UserError(
            f"'{source}' are chains of the domain '{GENERATORS[source]}', not '{name}'. Set data.domain: {GENERATORS[source]}."
        )
