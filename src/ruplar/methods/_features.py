"""Step text → its stored feature vector: the file of pooled visual features that ReGuLaR reads.

One file holds every distinct step once. `.safetensors` is read row by row from the disk; `.npz` is read whole.

    features   [N, F] float16 or float32     one vector a step: the encoder's output averaged over its places
    keys       [N] int64                     `step_key` of each step's text, in any order, none twice

A script that makes one renders each step as an image, encodes it, averages, and calls `write_features`, which `regular` hands on.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ruplar.errors import UserError


def step_key(step: str) -> int:
    """Text of a step, without its `<<` `>>` → its key: the first 8 bytes of SHA-256 of the UTF-8 text, signed."""
    return int.from_bytes(hashlib.sha256(step.encode()).digest()[:8], "big", signed=True)


def write_features(file: str | Path, steps: Sequence[str], vectors: np.ndarray) -> None:
    """Steps and their vectors [N, F] → a file for `method.feature_file`; its ending chooses the format.

    Raises:
        UserError: The numbers do not agree, a step stands twice, or the ending is unknown.
    """
    keys = np.array([step_key(step) for step in steps], dtype=np.int64)
    if vectors.ndim != 2 or len(vectors) != len(steps):
        raise UserError(f"{file}: {len(steps)} steps, but the vectors are {list(vectors.shape)}; give one a step.")
    if len(np.unique(keys)) != len(keys):
        raise UserError(f"{file}: a step stands twice; give each distinct step once.")
    _ending(file)
    if str(file).endswith(".npz"):
        np.savez(file, features=vectors, keys=keys)
    else:
        from safetensors.numpy import save_file

        save_file({"features": np.ascontiguousarray(vectors), "keys": keys}, str(file))


@dataclass
class FeatureFile:
    """A features file, opened when first asked and never pickled, so that each data-loader worker opens its own."""

    path: Path
    _rows: Any = field(default=None, init=False, repr=False)
    _keys: Any = field(default=None, init=False, repr=False)
    _order: Any = field(default=None, init=False, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path, "_rows": None, "_keys": None, "_order": None}

    @property
    def width(self) -> int:
        """F."""
        self._open()
        shape = self._rows.shape if isinstance(self._rows, np.ndarray) else self._rows.get_shape()
        return int(shape[1])

    def __getitem__(self, step: str) -> np.ndarray:
        """The vector of a step, float32 [F].

        Raises:
            UserError: The file does not have it.
        """
        self._open()
        key = step_key(step)
        at = int(np.searchsorted(self._keys, key))
        if at == len(self._keys) or self._keys[at] != key:
            raise UserError(
                f"method.feature_file: {self.path} has no features of the step '{step}'. Make them for every step of "
                "data.train (docs/method.md, ReGuLaR), or set method.features: hidden, which needs no file."
            )
        row = int(self._order[at])
        return np.asarray(self._rows[row : row + 1], dtype=np.float32)[0]

    def _open(self) -> None:
        if self._keys is not None:
            return
        keys, self._rows = _opened(self.path)
        self._order = np.argsort(keys, kind="stable")
        self._keys = keys[self._order]


def _opened(path: Path) -> tuple[np.ndarray, Any]:
    """Keys, and the rows as an array or as a slice of the file."""
    _ending(path)
    try:
        if path.suffix == ".npz":
            stored = np.load(path, allow_pickle=False)
            keys, rows = stored["keys"], stored["features"]
            shape = rows.shape
        else:
            from safetensors import safe_open

            opened = safe_open(str(path), framework="numpy")
            keys, rows = opened.get_tensor("keys"), opened.get_slice("features")
            shape = tuple(rows.get_shape())
    except (OSError, KeyError, ValueError) as error:
        raise UserError(f"method.feature_file: {path} cannot be read: {str(error).splitlines()[0]}") from error
    except Exception as error:  # safetensors raises a class of its own, which is no subclass of the others
        raise UserError(f"method.feature_file: {path} cannot be read: {error}") from error
    if len(shape) != 2 or keys.shape != shape[:1] or keys.dtype != np.int64:
        raise UserError(
            f"method.feature_file: {path} must hold `features` [N, F] and `keys` [N] of whole numbers of 64 bits; "
            f"it has {list(shape)} and {list(keys.shape)} of {keys.dtype}."
        )
    return keys, rows


def _ending(file: str | Path) -> None:
    if Path(file).suffix not in (".npz", ".safetensors"):
        raise UserError(f"{file}: a features file ends in .npz or .safetensors.")
