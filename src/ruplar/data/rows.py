"""File or Hub dataset → rows, each with its location; what the columns mean is decided in `formats.py`.

Lines are read one by one, so a large file is never held in memory (a `.json` list is). Numbers in JSON keep their written
form: 3244047.0999999996 stays that text, without passing through a float.
"""

import importlib.util
import json
import math
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from numbers import Real
from pathlib import Path
from typing import Any

from ruplar.errors import UserError, install_extra

_ROW_KEYS = ("data", "examples", "rows")
"""Keys under which a JSON object holds its rows, if it has several lists."""
_JSON_SHAPES = 'A .json file holds a list of rows, an object such as {"data": [...]}, or one row per line.'


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a file."""

    source: str  # `file:line`, or `name:index` counted from 1 where rows are not lines
    # column → value as in JSON, with numbers as text; a line of text is the column `text`
    fields: dict[str, Any] = field(default_factory=dict)
    fault: str = ""  # why the row cannot be read; "" if it can
    raw: str = ""  # the start of the row, for messages


def file_rows(path: Path) -> Iterator[Row]:
    """Yield the rows of a `.jsonl`, `.json`, `.txt` or `.parquet` file in order; blank lines are skipped."""
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise UserError(f"{path}: files of type '{path.suffix}' are not supported. Supported: {', '.join(SUFFIXES)}.")
    return reader(path)


LOCAL_FILE = "Or give the path of a local file."
"""The way out where a Hub set cannot be read."""


def hub_rows(name: str, config: str | None, split: str, hint: str = "") -> Iterator[Row]:
    """Yield the rows of a Hugging Face dataset, through the `datasets` package and its cache."""
    check_package("datasets", f"Reading '{name}' from the Hugging Face Hub", hint)
    import datasets

    hint = hint or LOCAL_FILE
    try:
        found = datasets.load_dataset(name, config, split=split)
    except Exception as error:  # the hub raises many kinds: offline, not found, gated, wrong split
        what = f"'hub:{name}" + (f"/{config}" if config else "") + f":{split}'"
        raise UserError(
            f"{what} cannot be loaded from the Hugging Face Hub: {type(error).__name__}: {error} "
            f"Check the name, the split and the network. {hint}"
        ) from error
    for index, fields in enumerate(found, start=1):
        yield _plain_row(f"{name}:{index}", fields)


def check_package(module: str, purpose: str, first: str = "") -> None:
    """Raise `UserError` if a package of the extra `data` is not installed; imports nothing. `first` is a simpler way out."""
    found = sys.modules[module] if module in sys.modules else importlib.util.find_spec(module)
    if found is None:
        raise UserError(f"{first} {purpose} needs the package '{module}'. {install_extra('data')}".lstrip())


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield number and bytes of each line that is not blank. Only a newline ends a line: JSON may contain other separators."""
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
        except (ValueError, RecursionError) as error:  # JSONDecodeError and UnicodeDecodeError are ValueErrors
            yield Row(source, fault=_reason(error), raw=raw)


def _reason(error: Exception) -> str:
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        key = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"the key '{key}' occurs more than once")
    return found


def _not_a_number(text: str) -> Any:
    raise ValueError(f"{text} is not a number in JSON")


def _loads(text: str) -> Any:
    return json.loads(text, parse_float=str, parse_int=str, parse_constant=_not_a_number, object_pairs_hook=_pairs)


def _object(found: Any) -> dict[str, Any]:
    if not isinstance(found, dict):
        raise ValueError(f"not a JSON object but a {type(found).__name__}")
    return found


def _jsonl_rows(path: Path) -> Iterator[Row]:
    return _line_rows(path, lambda line: _object(_loads(line)))


def _json_rows(path: Path) -> Iterator[Row]:
    """A JSON list of rows, an object that holds such a list (`{"data": [...]}`), or one row per line."""
    lines = _lines(path)
    first, second = (next(lines, (0, b""))[1] for _ in range(2))
    if first.startswith(b"{") and second.startswith(b"{"):
        return _jsonl_rows(path)
    try:
        found = _loads(path.read_text(encoding="utf-8-sig")) if first else []
    except (ValueError, RecursionError) as error:
        if first.startswith(b"{") and not second:
            return _jsonl_rows(path)
        raise UserError(f"{path}: not valid JSON: {_reason(error)}. {_JSON_SHAPES}") from error
    return _listed_rows(path, found if isinstance(found, list) else _rows_in(path, found))


def _rows_in(path: Path, found: Any) -> list[Any]:
    """A JSON object → the list of objects it holds; a row of its own if it holds none."""
    lists = {
        name: value
        for name, value in (found.items() if isinstance(found, dict) else ())
        if isinstance(value, list) and value and all(isinstance(row, dict) for row in value)
    }
    name = next((name for name in (*_ROW_KEYS, *(lists if len(lists) == 1 else ())) if name in lists), None)
    if name is not None:
        return lists[name]
    if lists:
        raise UserError(f"{path}: several lists of rows ({', '.join(lists)}). Keep one of them. {_JSON_SHAPES}")
    return [found]


def _listed_rows(path: Path, rows: list[Any]) -> Iterator[Row]:
    for index, fields in enumerate(rows, start=1):
        source = f"{path.name}:{index}"
        try:
            yield Row(source, _object(fields), raw=str(fields)[:200])
        except ValueError as error:
            yield Row(source, fault=str(error), raw="" if isinstance(fields, dict | list) else str(fields)[:200])


def _parquet_rows(path: Path) -> Iterator[Row]:
    check_package("pyarrow", f"Reading {path.name}")
    from pyarrow import parquet

    index = 0
    # pyarrow's errors are subclasses of OSError, ValueError (also UnicodeDecodeError) and NotImplementedError
    try:
        table = parquet.ParquetFile(path)
        columns = table.schema_arrow.names
        batches = table.iter_batches(batch_size=1024)
    except (OSError, ValueError, NotImplementedError) as error:
        raise UserError(f"{path}: not a Parquet file: {error}.") from error
    if len(set(columns)) < len(columns):
        raise UserError(f"{path}: a column occurs more than once ({', '.join(columns)}). Keep one of them.")
    while True:
        try:
            batch = next(batches, None)
            rows = batch.to_pylist() if batch is not None else []
        except (OSError, ValueError, NotImplementedError) as error:
            raise UserError(
                f"{path}: damaged, or not UTF-8 text, in the rows after {index}: {error}. Write the file again."
            ) from error
        if batch is None:
            return
        for fields in rows:
            index += 1
            yield _plain_row(f"{path.name}:{index}", fields)


def _plain_row(source: str, fields: dict[str, Any]) -> Row:
    """Typed values → the form that JSON rows have."""
    plain = {name: plain_value(value) for name, value in fields.items()}
    return Row(source, plain, raw=str(plain)[:200])


def plain_value(value: Any) -> Any:
    """Finite number → its text, also of numpy; anything else is unchanged."""
    number = isinstance(value, Real | Decimal) and not isinstance(value, bool)
    return str(value) if number and value == value and abs(value) != math.inf else value


_READERS: dict[str, Callable[[Path], Iterator[Row]]] = {
    ".json": _json_rows,
    ".jsonl": _jsonl_rows,
    ".parquet": _parquet_rows,
    ".txt": lambda path: _line_rows(path, lambda line: {"text": line}),
}

SUFFIXES = tuple(sorted(_READERS))
"""Suffixes of the files that can be read."""
