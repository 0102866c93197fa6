"""Training chains → a shelf of all of them, encoded once by several processes and kept in files for the next run.

FOLDER/<key>/ids.values.npy, ids.starts.npy, …     one file an array, read through memory maps
FOLDER/<key>/also/<name>/…                         companions, the same way

The key names everything an encoding depends on: the data, the tokenizer and the prompt, domain, spans, prior and method with
their settings, and the source they are written in. A folder takes its name once it is whole.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

import numpy as np
from torch.utils.data import DataLoader, Dataset

from ruplar.data.cache import alone, is_complete, key_of, source_of, write_complete
from ruplar.data.collate import ChainDataset, Encoder
from ruplar.data.columnar import COLUMNS, ColumnarDataset, Ragged, batch_of, join, to_columns
from ruplar.types import Batch, SampleContext

if TYPE_CHECKING:
    from ruplar.methods.base import Method

log = logging.getLogger(__name__)

_AT_ONCE = 4096
"""Rows a process encodes at a time."""


@dataclass
class PretokenizedDataset(Dataset):
    """A shelf as what the trainer reads: an item is the visit to its row, and a batch is made of the visits."""

    columns: ColumnarDataset
    method: Method

    def __len__(self) -> int:
        return len(self.columns)

    def __getitem__(self, context: SampleContext) -> SampleContext:
        return context

    def lengths(self) -> list[int]:
        """How long each row is, in tokens."""
        return np.diff(self.columns.ids.starts).tolist()

    def collate(self, contexts: Sequence[SampleContext], pad_id: int, width: int) -> Batch:
        """Visits → one batch, whose features are drawn here where the method draws them."""
        rows = np.asarray([context.row for context in contexts], dtype=np.int64)
        drawn = None
        if self.method.draws:
            counts = self.columns.latent_at.counts(rows).tolist()
            found = [self.method.features(context, count) for context, count in zip(contexts, counts, strict=True)]
            drawn = Ragged.of(found, np.float32, self.columns.features.values.shape[1:])
        return batch_of(self.columns, rows, pad_id, width, drawn)


def changes(dataset: ChainDataset) -> bool:
    """Whether a row is another sequence at every visit, so that it cannot be encoded ahead."""
    return dataset.method.dynamic or dataset.encoder.priors.prior.dynamic


def pretokenize(dataset: ChainDataset, names: Mapping[str, Any], folder: Path, workers: int) -> PretokenizedDataset:
    """All rows of a data set, encoded; from the folder where an earlier run has left them.

    Args:
        dataset: Whose rows do not change from visit to visit.
        names: Everything the encoding depends on, as plain data.
        folder: Where shelves are kept.
        workers: Processes that encode; 0: this one.
    """
    assert not changes(dataset), "the trainer asks for this only where it holds"
    place = place_of(dataset, names, folder)
    if not is_complete(place):  # else nothing is written, not even a lock: the folder may be another's
        with alone(place):
            if not is_complete(place):
                _keep(_encode(dataset, workers), place)
                log.info("%s: %d chains encoded.", place, len(dataset))
    return PretokenizedDataset(_open(place), dataset.method)


def place_of(dataset: ChainDataset, names: Mapping[str, Any], folder: Path) -> Path:
    """Where the shelf of a data set is kept, there or not; see `encoded_ahead`."""
    return folder / _key(dataset, names)


@dataclass
class _Parts(Dataset):
    """The rows of a data set, some thousand at a time, each part a shelf."""

    dataset: ChainDataset

    def __len__(self) -> int:
        return -(-len(self.dataset) // _AT_ONCE)

    def __getitem__(self, part: int) -> ColumnarDataset:
        first = part * _AT_ONCE
        rows = range(first, min(first + _AT_ONCE, len(self.dataset)))
        return to_columns([self.dataset[SampleContext(0, row)] for row in rows])


def _encode(dataset: ChainDataset, workers: int) -> ColumnarDataset:
    whole = ChainDataset(dataset.examples, dataset.method, dataset.encoder, keep=False)
    loader = DataLoader(
        _Parts(whole), batch_size=None, num_workers=workers, collate_fn=_as_it_is, worker_init_fn=_leave_with_parent
    )
    return join(list(loader))


def _leave_with_parent(worker: int) -> None:
    """End this process when the one that started it is killed: it would wait for good to hand over a part half sent."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    Thread(target=watch, daemon=True).start()


def _as_it_is(columns: Any) -> Any:
    return columns


def _key(dataset: ChainDataset, names: Mapping[str, Any]) -> str:
    encoder = dataset.encoder
    plugged = (dataset.method, encoder.domain, encoder.span_rule, encoder.priors.prior)
    return key_of(names, _text_of(encoder.prompt.tokenizer), _frame_of(encoder), source_of(*plugged))


def _frame_of(encoder: Encoder) -> str:
    """What stands around a question and ends an answer: two models may share a tokenizer's text and differ in these."""
    prompt = encoder.prompt("?")
    return json.dumps([prompt.ids, prompt.question_at, encoder.markers, sorted(encoder.prompt.controls)])


def _text_of(tokenizer: Any) -> str:
    fast = getattr(tokenizer, "backend_tokenizer", None)
    return fast.to_str() if fast is not None else json.dumps(tokenizer.get_vocab(), sort_keys=True)


def _keep(columns: ColumnarDataset, place: Path) -> None:
    with write_complete(place) as draft:
        _write(columns, draft)


def _write(columns: ColumnarDataset, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in COLUMNS:
        column = getattr(columns, name)
        np.save(folder / f"{name}.values.npy", column.values)
        np.save(folder / f"{name}.starts.npy", column.starts)
    for name, companion in columns.also.items():
        _write(companion, folder / "also" / name)
        np.save(folder / "also" / f"{name}.starts.npy", columns.also_at[name].starts)


def _open(folder: Path) -> ColumnarDataset:
    columns = {
        name: Ragged(_array(folder / f"{name}.values.npy"), _array(folder / f"{name}.starts.npy")) for name in COLUMNS
    }
    names = sorted(place.name for place in (folder / "also").glob("*") if place.is_dir())
    starts = {name: _array(folder / "also" / f"{name}.starts.npy") for name in names}
    return ColumnarDataset(
        **columns,
        also={name: _open(folder / "also" / name) for name in names},
        also_at={name: Ragged(np.arange(at[-1], dtype=np.int64), at) for name, at in starts.items()},
    )


def _array(file: Path) -> np.ndarray:
    return np.load(file, mmap_mode="r")
