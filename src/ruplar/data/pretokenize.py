"""Training chains → one columnar dataset, encoded once by several processes and cached on disk.

FOLDER/<key>/ids.values.npy, ids.starts.npy, …     one file per array, memory-mapped
FOLDER/<key>/also/<name>/…                         companions, the same way

The key depends on everything the encoding depends on: the data, the tokenizer, the prompt, the plug-ins (domain, spans,
prior, method) with their settings, and the source code.
"""

from __future__ import annotations

import itertools
import json
import logging
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any

import numpy as np
from torch.utils.data import DataLoader, Dataset

from ruplar.data.cache import key_of, source_of, write_once
from ruplar.data.collate import batch_of
from ruplar.data.columnar import COLUMNS, ColumnarDataset, Ragged, counting, to_columns
from ruplar.data.encoding import ChainDataset, Encoder, EncodingMethod
from ruplar.types import Batch, SampleContext

log = logging.getLogger(__name__)

_PART_ROWS = 4096
"""Rows that a process encodes at a time."""


@dataclass
class PretokenizedDataset(Dataset):
    """A columnar dataset as the trainer reads it: an item is its sample context, and `collate` builds a batch from these."""

    columns: ColumnarDataset
    method: EncodingMethod

    def __len__(self) -> int:
        return len(self.columns)

    def __getitem__(self, context: SampleContext) -> SampleContext:
        return context

    def lengths(self) -> list[int]:
        """Return the length of each row in tokens."""
        return np.diff(self.columns.ids.starts).tolist()

    def collate(self, contexts: Sequence[SampleContext], pad_id: int, width: int) -> Batch:
        """Sample contexts → one batch, with features drawn for it where the method draws them."""
        rows = np.asarray([context.row for context in contexts], dtype=np.int64)
        features = None
        if self.method.draws:
            counts = self.columns.latent_at.counts(rows).tolist()
            found = [self.method.features(context, count) for context, count in zip(contexts, counts, strict=True)]
            features = Ragged.of(found, np.float32, self.columns.features.values.shape[1:])
        return batch_of(self.columns, rows, pad_id, width, features)


def pretokenize(dataset: ChainDataset, names: Mapping[str, Any], folder: Path, workers: int) -> PretokenizedDataset:
    """Encode all rows of a dataset, or load them from the cache.

    Args:
        dataset: A dataset that is not dynamic.
        names: Everything the encoding depends on, as plain data.
        folder: The cache folder.
        workers: Processes that encode; 0: this one.
    """
    assert not dataset.dynamic, "dynamic rows cannot be pre-tokenized"
    place = place_of(dataset, names, folder)

    def encode(draft: Path) -> None:
        with TemporaryDirectory(dir=draft) as parts:
            join(_encode(dataset, workers, Path(parts)), draft)
        log.info("%s: %d chains encoded.", place, len(dataset))

    write_once(place, encode)
    return PretokenizedDataset(load(place), dataset.method)


def place_of(dataset: ChainDataset, names: Mapping[str, Any], folder: Path) -> Path:
    """Return the folder that `pretokenize` writes for a dataset, whether it exists or not."""
    return folder / _key(dataset, names)


@dataclass
class _Parts(Dataset):
    """The rows of a dataset in parts of `_PART_ROWS`, each a columnar dataset."""

    dataset: ChainDataset

    def __len__(self) -> int:
        return -(-len(self.dataset) // _PART_ROWS)

    def __getitem__(self, part: int) -> ColumnarDataset:
        first = part * _PART_ROWS
        rows = range(first, min(first + _PART_ROWS, len(self.dataset)))
        return to_columns([self.dataset[SampleContext(0, row)] for row in rows])


def _encode(dataset: ChainDataset, workers: int, folder: Path) -> list[Path]:
    """Encode all rows and return the folder of each part: all together may be larger than memory."""
    parts = _Parts(ChainDataset(dataset.examples, dataset.method, dataset.encoder, keep=False))
    how: dict[str, Any] = {"num_workers": workers, "collate_fn": _identity, "worker_init_fn": _exit_with_parent}
    loader = DataLoader(parts, batch_size=None, **how)
    places = []
    for number, part in enumerate(loader):
        places.append(folder / str(number))
        write(part, places[-1])
    return places


def _exit_with_parent(worker: int) -> None:
    """End this worker when its parent is killed; it would otherwise wait forever to send a part."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    Thread(target=watch, daemon=True).start()


def _identity(columns: Any) -> Any:
    return columns


def _key(dataset: ChainDataset, names: Mapping[str, Any]) -> str:
    encoder = dataset.encoder
    plugins = (dataset.method, encoder.domain, encoder.span_rule, encoder.priors.prior)
    return key_of(names, _tokenizer_text(encoder.prompt.tokenizer), _prompt_text(encoder), source_of(*plugins))


def _prompt_text(encoder: Encoder) -> str:
    """Return the chat template's and marker ids, which two models with the same tokenizer file may not share."""
    prompt = encoder.prompt("?")
    return json.dumps([prompt.ids, prompt.question_at, encoder.markers, sorted(encoder.prompt.controls)])


def _tokenizer_text(tokenizer: Any) -> str:
    fast = getattr(tokenizer, "backend_tokenizer", None)
    return fast.to_str() if fast is not None else json.dumps(tokenizer.get_vocab(), sort_keys=True)


def write(columns: ColumnarDataset, folder: Path) -> None:
    """Write a dataset to a folder that `load` reads."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in COLUMNS:
        column = getattr(columns, name)
        np.save(folder / f"{name}.values.npy", column.values)
        np.save(folder / f"{name}.starts.npy", column.starts)
    for name, companion in columns.also.items():
        write(companion, folder / "also" / name)
        np.save(folder / "also" / f"{name}.starts.npy", columns.also_at[name].starts)


def join(parts: Sequence[Path], folder: Path) -> None:
    """Concatenate the datasets of several folders, in their order, file by file."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in COLUMNS:
        values = [_array(part / f"{name}.values.npy") for part in parts]
        width = max((one.shape[1] for one in values if one.ndim == 2), default=0)
        padded = (np.pad(one, ((0, 0), (0, width - one.shape[1]))) if one.ndim == 2 else one for one in values)
        shape = (sum(map(len, values)), *([width] if values[0].ndim == 2 else []))
        _save(folder / f"{name}.values.npy", padded, values[0].dtype, shape)
        _join_starts([part / f"{name}.starts.npy" for part in parts], folder / f"{name}.starts.npy")
    for name in sorted(place.name for place in (parts[0] / "also").glob("*") if place.is_dir()):
        join([part / "also" / name for part in parts], folder / "also" / name)
        _join_starts([part / "also" / f"{name}.starts.npy" for part in parts], folder / "also" / f"{name}.starts.npy")


def _join_starts(parts: Sequence[Path], file: Path) -> None:
    starts = [_array(part) for part in parts]
    ends = np.cumsum([0, *(one[-1] for one in starts)])
    moved = (one[:-1] + end for one, end in zip(starts, ends, strict=False))
    _save(file, itertools.chain(moved, [ends[-1:]]), np.dtype(np.int64), (sum(len(one) - 1 for one in starts) + 1,))


def _save(file: Path, blocks: Iterable[np.ndarray], dtype: np.dtype, shape: tuple[int, ...]) -> None:
    """Write blocks of rows as one .npy file."""
    with file.open("wb") as out:
        header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(out, header)
        for block in blocks:
            np.ascontiguousarray(block).tofile(out)


def load(folder: Path) -> ColumnarDataset:
    """Map the files of a dataset."""
    columns = {
        name: Ragged(_array(folder / f"{name}.values.npy"), _array(folder / f"{name}.starts.npy")) for name in COLUMNS
    }
    names = sorted(place.name for place in (folder / "also").glob("*") if place.is_dir())
    starts = {name: _array(folder / "also" / f"{name}.starts.npy") for name in names}
    return ColumnarDataset(
        **columns,
        also={name: load(folder / "also" / name) for name in names},
        also_at={name: counting(np.diff(at)) for name, at in starts.items()},
    )


def _array(file: Path) -> np.ndarray:
    return np.load(file, mmap_mode="r")
