"""A data entry of a recipe → examples: of a file, a known or Hub set, or a problem generator.

{source: gsm8k-aug-train}                        a file or a Hub set (`locations.py`)
{source: word-problems, count: 1000, seed: 1}    a generator: problem i is a function of (seed, i), so a set of millions
                                                 takes no memory
{source: gsm8k-train, augment: 60, seed: 1}      up to 60 augmented chains for each chain, with its numbers resampled
                                                 (`augment/`); the original chains are another entry
{source: mine.jsonl, split_by: scenario}         the train, valid or test split of a file, each scenario in one split only
                                                 (`scenarios.py`)

Settings that do not apply to a kind of source are errors.
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
from ruplar.data.locations import KNOWN_SETS, known_as
from ruplar.data.read import SKIP_WITH, ReadResult, read
from ruplar.data.stored import ExampleView
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
"""Problem generators → the packaged domain of their chains."""
TEST_SEED = 20_260_509
"""Seed of the word problems of `--on word-problems`; no recipe may train on it."""
TEST_COUNT = 500
HELD_OUT, SHORT, SITUATIONS = "held-out", "short", "situations"
"""Groups of families: `word-problems:held-out`: not in the training of packaged models; `:short`: one or two steps;
`:situations`: short problems with longer texts."""


Refuse = Callable[[Example], str | None]
"""Example → why it must not be trained on, or None."""


class SourceConfig(Settings):
    """One source of examples."""

    source: str = Field(
        min_length=1,
        description="A file, a known set, hub:owner/name, or a generator: word-problems[:FAMILY], drills, date-problems, "
        "logic-problems, logic-ways, logic-lookups.",
    )
    count: int | None = Field(None, ge=1, description="Number of examples; null: all rows, or 500 problems.")
    seed: int = Field(TEST_SEED, ge=0, description="Random seed of generated or augmented problems.")
    families: tuple[str, ...] | None = Field(
        None, min_length=1, description="Families of word problems; null: those of the training set."
    )
    steps: tuple[int, int] = Field((1, 6), description="Minimum and maximum number of steps of a generated problem.")
    format: str | None = Field(None, description="Column layout of a file; null: detected from its first row.")
    split_by: Literal["scenario"] | None = Field(
        None, description="Split a file into train, valid and test by the scenario of its questions; null: no split."
    )
    augment: int | None = Field(
        None,
        ge=1,
        description="Replace each chain by up to this many copies with resampled numbers; null: keep the chain.",
    )
    large: float = Field(LARGE, ge=0, le=1, description="Share of augmented chains with a number of 4 to 7 digits.")

    @model_validator(mode="before")
    @classmethod
    def _bare_name(cls, value: Any) -> Any:
        """A string is a source; `word-problems:bakery` names a family; `:held-out`, `:short` and `:situations` are groups."""
        value = {"source": value} if isinstance(value, str) else value
        if isinstance(value, dict) and str(value.get("source", "")).startswith(f"{GENERATOR}:"):
            family = value["source"].partition(":")[2]
            if value.get("families"):
                raise ValueError(f"'{value['source']}' already names a family; remove families")
            value = {**value, "source": GENERATOR, "families": group(family)}
        if isinstance(value, dict) and str(value.get("source")) in scenarios.JOINED:
            value = {"split_by": "scenario", **value}
        return value

    @model_validator(mode="after")
    def _fits(self) -> SourceConfig:
        """Reject settings that do not apply to this kind of source."""
        wrong = list(self._generator_problems() if self.is_generated else self._file_problems())
        if wrong:
            raise ValueError("; ".join(wrong))
        return self

    def _generator_problems(self) -> Iterator[str]:
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
            yield f"steps must be [minimum, maximum], both at least 1, got {list(self.steps)}"

    def _file_problems(self) -> Iterator[str]:
        own = type(self).model_fields
        drawn = ("families", "steps") if self.augment else ("seed", "families", "steps")
        given = [name for name in drawn if getattr(self, name) != own[name].default]
        if given:
            written = " or ".join(f"'{name}'" for name in ([GENERATOR] if "families" in given else GENERATORS))
            yield f"{' and '.join(given)} can be set for {written} only, not for '{self.source}'"
        if self.augment is None and self.large != LARGE:
            yield f"large can be set only together with augment, which '{self.source}' does not have"
        if self.augment and self.split_by is not None:
            yield "augment and split_by cannot be set together"
        if self.format is not None and self.format not in FORMATS:
            yield unknown("format", self.format, FORMATS).rstrip(".")
        if self.source.partition(":")[0] in GENERATORS:
            yield f"'{self.source.partition(':')[0]}' has no families; remove '{self.source.partition(':')[2]}'"
        if self.source in scenarios.JOINED and self.split_by is None:
            yield f"'{self.source}' is always split by scenario; remove split_by"

    @property
    def is_generated(self) -> bool:
        """Whether the source is a problem generator."""
        return self.source in GENERATORS

    @property
    def name(self) -> str:
        """The name of the source in tables; a file's is its path."""
        if self.is_generated:
            for some in (HELD_OUT, SHORT, SITUATIONS):
                if self.families and self.families == group(some):
                    return f"{self.source}:{some}"
            return self.source + (":" + "+".join(self.families) if self.families else "")
        return f"{self.source}, augmented" if self.augment else self.source


def generator(domain: str) -> Callable[..., Iterator[Example]]:
    """Name of a packaged domain → its generator: (count, seed, steps=, start=, split=) → examples."""
    for source, about in GENERATORS.items():
        if about == domain:
            return module_of(source).generate
    raise UserError(unknown("domain with a generator", domain, GENERATORS.values()))


def module_of(source: str) -> ModuleType:
    """Return the module of a generator."""
    return importlib.import_module(f"ruplar.problems.{source.replace('-', '_')}")


def group(name: str) -> tuple[str, ...]:
    """Name of a family or a group of families → the families."""
    from ruplar.problems import word_problems

    groups = {HELD_OUT: word_problems.HELD_OUT, SHORT: word_problems.SHORT, SITUATIONS: word_problems.SITUATIONS}
    return tuple(groups.get(name, (name,)))


@dataclass(frozen=True)
class GeneratedProblems(ExampleView):
    """The problems of one split as a sequence that generates each problem on access."""

    config: SourceConfig
    split: Split = "test"

    def __len__(self) -> int:
        return self.config.count or TEST_COUNT

    def _one(self, row: int) -> Example:
        return next(self._from(row, 1))

    def __iter__(self) -> Iterator[Example]:
        return self._from(0, len(self))

    def _from(self, start: int, count: int) -> Iterator[Example]:
        c = self.config
        families = {"families": c.families} if c.source == GENERATOR else {}
        return module_of(c.source).generate(count, c.seed, steps=c.steps, start=start, split=self.split, **families)


@dataclass(frozen=True)
class LoadedSource:
    """Examples, and the entry of `run.json` for their source."""

    examples: Sequence[Example]
    record: dict[str, Any]


def open_source(
    config: SourceConfig,
    domain: Domain,
    *,
    need_steps: bool = True,
    skip_bad: bool = False,
    data_dir: str | Path | None = None,
    split: Split = "test",
    skip_with: str = SKIP_WITH,
    refuse: Refuse | None = None,
) -> LoadedSource:
    """Load the examples of one source.

    Args:
        config: The source.
        domain: Finds the steps.
        need_steps: Whether a row without a step is bad.
        skip_bad: Leave bad rows out instead of raising an error.
        data_dir: Folder with the files of known sets.
        split: Generated problems of one split never occur in another, whatever the seed; a file with `split_by` gives this
            split.
        skip_with: How the user sets `skip_bad`, for the error message.
        refuse: Returns why a chain must not be augmented, or None; only used with `augment`.
    """
    if config.augment and split != "train":
        raise UserError(f"'{config.source}': augment is for training data only; evaluation uses published questions.")
    if config.is_generated:
        return _generated(config, domain, split)
    # an augmented chain depends on the row number, so the rows must be the same for all methods
    need_steps = need_steps or bool(config.augment)
    # a split is chosen from all rows, so no limit before that
    limit = config.count if config.split_by is None and not config.augment else None
    results = [
        read(
            name,
            domain,
            format=config.format,
            need_steps=need_steps,
            skip_bad=skip_bad,
            limit=limit,
            data_dir=data_dir,
            skip_with=skip_with,
        )
        for name in scenarios.JOINED.get(config.source, (config.source,))
    ]
    if config.split_by is None and split != "test":
        _check_role(config.source, results[0].examples, split)
    if config.augment:
        return _augmented(config, results[0], refuse)
    if config.split_by is not None:
        scenarios.keep_part(results, domain, split, config.name)
    wrong = scenarios.wrong_chains(results, domain)
    # a published benchmark keeps its wrong chains, and the record counts them; our own splits leave them out
    if split != "test" or config.split_by is not None:
        scenarios.leave_out_wrong(results, wrong, skip_bad or split == "test")
    examples = results[0].examples
    if len(results) > 1 or (config.count is not None and config.count < len(examples)):
        examples = [example for result in results for example in result.examples][: config.count]
    record = results[0].record()
    if config.split_by is not None:
        record = scenarios.record_of(results, domain, split, config.name)
    wrong_kept = sum(example.source in wrong for example in examples) if wrong else 0
    record |= {"examples": len(examples), **({"wrong_kept": wrong_kept} if wrong_kept else {})}
    return LoadedSource(examples, record)


def _check_role(source: str, examples: Sequence[Example], split: Split) -> None:
    """Refuse to train on a test or selection set, or to select on a test set, whatever its file is called."""
    for name in known_as(examples):
        role = KNOWN_SETS[name].role
        if role == "test" or (role and split == "train"):
            raise UserError(f"'{source}' has the content of '{name}', a {role} set. Use other data for data.{split}.")


def _generated(config: SourceConfig, domain: Domain, split: Split) -> LoadedSource:
    """Load the problems of a generator; domains outside the package may read those of any generator."""
    source, expected = config.source, GENERATORS[config.source]
    package, _, name = type(domain).__module__.rpartition(".")
    if package == "ruplar.domains" and name != expected:
        raise UserError(f"'{source}' is of the domain '{expected}', not '{name}'. Set data.domain: {expected}.")
    problems = GeneratedProblems(config, split)
    record = {"source": config.name, "split": split, "seed": config.seed, "examples": len(problems), "left_out": {}}
    revision = getattr(module_of(source), "REVISION", 1)
    return LoadedSource(problems, record | ({"revision": revision} if revision > 1 else {}))


def _augmented(config: SourceConfig, result: ReadResult, refuse: Refuse | None) -> LoadedSource:
    """Chains read from a file → augmented chains."""
    assert config.augment is not None
    found, report = build(
        result.examples, config.seed, count=config.count, per_chain=config.augment, large=config.large, refuse=refuse
    )
    record = {
        **result.record(),
        "source": config.name,
        "sha256": found.sha256,
        "questions_sha256": None,
        "of_sha256": result.record()["sha256"] or result.record()["questions_sha256"],
        "seed": config.seed,
        "chains_used": report.used,
        "examples": len(found),
    }
    # the original chains may be another entry, so chains that cannot be augmented are counted under a name of their own
    left_out = Counter(record["left_out"]) + report.left_out
    record["left_out"] = {f"not augmented: {why}": n for why, n in left_out.items()}
    if not len(found):
        why = "; ".join(f"{n} {reason}" for reason, n in report.left_out.most_common())
        raise UserError(f"{config.source}: no chain can be augmented: {why}.")
    return LoadedSource(found, record)
