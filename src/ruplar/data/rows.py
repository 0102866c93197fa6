"""File or Hub data set → rows, each with the place it stands: reading only, no meaning.

Lines are read one by one, so a large file never sits in memory (a `.json` list does). Numbers in JSON keep their
written form: 3244047.0999999996 stays that text, never passing through a float.
"""

from __future__ import annotations

import importlib
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

from ruplar.errors import UserError, install_extra


@dataclass(frozen=True, slots=True)
class Row:
    """One row as found.

    Attributes:
        source: `file:line`, or `name:index` counted from 1 where rows are no lines.
        fields: Column → value, as JSON gives it with numbers as text; a text line stands under `text`.
        fault: Why it could not be read at all; "" when it could.
        raw: The start of the row, for messages.
    """

    source: str
    fields: dict[str, Any] = field(default_factory=dict)
    fault: str = ""
    raw: str = ""


def file_rows(path: Path) -> Iterator[Row]:
    """Rows of a `.jsonl`, `.json` (a list, or lines), `.txt` or `.parquet` file, in order; blank lines are no rows.

    Raises:
        UserError: The suffix is none of these, the file is no such thing, or Parquet cannot be read here.
    """
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise UserError(f"{path}: cannot tell what a '{path.suffix}' file holds. Readable: {', '.join(SUFFIXES)}.")
    return reader(path)


def hub_rows(name: str, config: str | None, split: str, hint: str = "") -> Iterator[Row]:
    """Rows of a Hugging Face data set, through the `datasets` package and its cache.

    Args:
        name: `owner/name`.
        config: The set's configuration, None for its only one.
        split: As `datasets` writes it: `test`, `train+test`, `train[:10%]`.
        hint: How to get the rows without the Hub, for the message when they cannot be loaded.

    Raises:
        UserError: `datasets` is not installed, or the set cannot be loaded (offline, no network, no such name or split).
    """
    hint = hint or "Or give the path of a local file."
    datasets = _optional("datasets", f"Reading '{name}' from the Hugging Face Hub", hint)
    try:
        found = datasets.load_dataset(name, config, split=split)
    except Exception as error:  # the hub raises many kinds: offline, not found, gated, wrong split
        what = f"'hub:{name}" + (f"/{config}" if config else "") + f":{split}'"
        if _offline():
            raise UserError(
                f"{what} is not in the cache of `datasets`, and HF_HUB_OFFLINE=1 is set. {hint}"
            ) from error
        raise UserError(
            f"{what} cannot be loaded from the Hugging Face Hub: {type(error).__name__}: {error} "
            f"Check the name, the split and the network. {hint}"
        ) from error
    for index, fields in enumerate(found, start=1):
        yield _plain_row(f"{name}:{index}", fields)


def _offline() -> bool:
    from huggingface_hub import constants

    return bool(constants.HF_HUB_OFFLINE)


def _optional(module: str, purpose: str, otherwise: str = "") -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        install = f"{purpose} needs the package '{module}'. {install_extra('data')}"
        raise UserError(f"{install} {otherwise}".rstrip()) from error


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Number and bytes of each line that is not blank. Only a newline ends a line: JSON may hold other separators."""
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            line = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
            if line.strip():
                yield number, line.strip()


def _line_rows(path: Path, parse: Callable[[str], dict[str, Any]]) -> Iterator[Row]:
    for number, line in _lines(path):
        source = f"{path.name}:{number}"
        raw = line[:200].decode("utf-8", "replace")
        try:
            yield Row(source, parse(line.decode("utf-8")), raw=raw)
        except ValueError as error:  # JSONDecodeError and UnicodeDecodeError are ValueErrors
            yield Row(source, fault=str(error), raw=raw)


def _no_constant(text: str) -> Any:
    raise ValueError(f"{text} is no number")


def _loads(text: str) -> Any:
    return json.loads(text, parse_float=str, parse_int=str, parse_constant=_no_constant)


def _object(text: str) -> dict[str, Any]:
    found = _loads(text)
    if not isinstance(found, dict):
        raise ValueError(f"not a JSON object but a {type(found).__name__}")
    return found


def _jsonl_rows(path: Path) -> Iterator[Row]:
    return _line_rows(path, _object)


def _text_rows(path: Path) -> Iterator[Row]:
    return _line_rows(path, lambda line: {"text": line})


def _json_rows(path: Path) -> Iterator[Row]:
    """A JSON list; a `.json` file that opens with `{` is read as lines."""
    first = next(_lines(path), (0, b""))[1]
    if not first.startswith(b"["):
        yield from _jsonl_rows(path)
        return
    try:
        found = _loads(path.read_text(encoding="utf-8-sig"))
    except ValueError as error:
        raise UserError(f"{path}: not a JSON list: {error}.") from error
    for index, fields in enumerate(found, start=1):
        source = f"{path.name}:{index}"
        if isinstance(fields, dict):
            yield Row(source, fields, raw=str(fields)[:200])
        else:
            yield Row(source, fault=f"not a JSON object but a {type(fields).__name__}", raw=str(fields)[:200])


def _parquet_rows(path: Path) -> Iterator[Row]:
    parquet = _optional("pyarrow.parquet", f"Reading {path.name}")
    try:
        table = parquet.ParquetFile(path)
    except (OSError, ValueError) as error:  # ArrowInvalid is a ValueError
        raise UserError(f"{path}: not a Parquet file: {error}.") from error
    index = 0
    for batch in table.iter_batches(batch_size=1024):
        for fields in batch.to_pylist():
            index += 1
            yield _plain_row(f"{path.name}:{index}", fields)


def _plain_row(source: str, fields: dict[str, Any]) -> Row:
    """Typed values → the form JSON rows have; columns that are null are absent."""
    plain = {name: _plain(value) for name, value in fields.items() if value is not None}
    return Row(source, plain, raw=str(plain)[:200])


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else value
    if isinstance(value, int | Decimal) and not isinstance(value, bool):
        return str(value)
    return value


_READERS: dict[str, Callable[[Path], Iterator[Row]]] = {
    ".json": _json_rows,
    ".jsonl": _jsonl_rows,
    ".parquet": _parquet_rows,
    ".txt": _text_rows,
}

SUFFIXES = tuple(sorted(_READERS))
"""Endings of the files that can be read."""
