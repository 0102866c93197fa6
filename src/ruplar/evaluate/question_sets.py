"""Names of benchmarks → their questions, loaded and checked; needs the domain of the answers, but no model."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ruplar.data.formats import BROKEN, UNREADABLE
from ruplar.data.locations import KNOWN_SETS, known_as, locate
from ruplar.data.sources import LoadedSource, SourceConfig, Split, open_source
from ruplar.domains.base import Domain
from ruplar.errors import UserError
from ruplar.fingerprints import fingerprint_answers
from ruplar.types import Example

log = logging.getLogger(__name__)

_SKIP_WITH = "use --skip-bad (skip_bad=True in Python)"


@dataclass(frozen=True)
class Part:
    """A source evaluated under another name, and the split that generated problems are drawn from."""

    name: str
    source: SourceConfig
    split: Split = "test"


@dataclass(frozen=True)
class Questions:
    """One loaded benchmark: its name, its questions, the limit if it removed any, what run.json stores about it."""

    name: str
    examples: Sequence[Example]
    limit: int | None
    record: dict[str, Any]


Benchmark = str | SourceConfig | Part | Questions
"""A benchmark by name, file or entry, or already loaded."""


def open_questions(
    on: Sequence[Benchmark],
    domain: Domain,
    *,
    limit: int | None = None,
    data_dir: str | Path | None = None,
    skip_bad: bool = False,
) -> list[Questions]:
    """Load every benchmark."""
    if limit is not None and limit < 1:
        raise UserError(f"limit: must be at least 1, got {limit}. Leave it out to use every question.")
    found = [one if isinstance(one, Questions) else _load(one, domain, limit, data_dir, skip_bad) for one in on]
    names = [questions.name for questions in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UserError(
            f"two benchmarks have the name {', '.join(twice)}, and a record stores one per name. Rename a file, or evaluate "
            "them in two runs with different outputs."
        )
    return found


def _load(
    entry: str | SourceConfig | Part, domain: Domain, limit: int | None, data_dir: str | Path | None, skip_bad: bool
) -> Questions:
    split: Split = entry.split if isinstance(entry, Part) else "test"
    try:
        config = SourceConfig.model_validate(entry.source if isinstance(entry, Part) else entry)
    except ValidationError as error:
        raise UserError(*(e["msg"].removeprefix("Value error, ") for e in error.errors()), where=str(entry)) from error
    loaded = open_source(
        config, domain, need_steps=False, skip_bad=skip_bad, data_dir=data_dir, split=split, skip_with=_SKIP_WITH
    )
    named = entry.name if isinstance(entry, Part) else ""
    name = named if named and named not in KNOWN_SETS else _name(config, loaded, data_dir)
    if named not in ("", name):
        raise UserError(f"{name}: is not the content of '{named}'. Replace it, or list the file by its path.")
    if not loaded.examples:
        raise UserError(f"{name}: has no question.")
    cut = limit is not None and limit < len(loaded.examples)
    # `count` rows of a file count as limited, since it may have more; generated problems have no end, `data.valid` is as it is
    least = limit if cut else None if config.is_generated or split == "valid" else config.count
    if skip_bad and any(loaded.record.get("left_out", {}).get(reason) for reason in (BROKEN, UNREADABLE)):
        least = least or len(loaded.examples)
    record = {**loaded.record, "source": name} if name not in KNOWN_SETS and split == "test" else loaded.record
    return Questions(name, loaded.examples[:limit] if cut else loaded.examples, least, record)


def _name(config: SourceConfig, loaded: LoadedSource, data_dir: str | Path | None) -> str:
    """Return the name of the known set with this content, whatever the file is called; else the source's path or address."""
    if config.is_generated or config.count is not None or config.split_by is not None:
        return config.name
    names = known_as(loaded.examples)
    known = KNOWN_SETS.get(config.source)
    if config.source in names or (known is not None and known.sha256 and known.sha256 == loaded.record["sha256"]):
        return config.source
    if names:  # GSM8K's test set is two known sets; the last one has the paper's name
        return next((name for name in names if KNOWN_SETS[name].file == Path(config.source).name), names[-1])
    if known is None:
        return config.name
    place = locate(config.source, data_dir).name
    content = "%s (rows: %d, fingerprint: %s) is not the content of '%s' in known_sets.yaml: results are listed under its path."
    log.warning(content, place, *fingerprint_answers(loaded.examples), config.source)
    return place
