"""Name or path → a recipe or a study as plain data, merged over the files it is based on.

A file with `base: NAME` (a packaged file, or one in the same folder) has only the differences to that one.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruplar.config.check import PLUGIN_SECTIONS
from ruplar.config.text import merge, read_yaml
from ruplar.errors import UserError, unknown


@dataclass(frozen=True)
class YamlFiles:
    """The files of a kind: those of a folder, by name, and a user's own, by path."""

    kind: str  # `recipe` or `study`
    folder: Path

    def names(self) -> dict[str, str]:
        """Packaged files: name → the first line of its heading. A file `_NAME.yaml` is only a base."""
        files = sorted(self.folder.glob("[!_]*.yaml"))
        return {f.stem: f.read_text(encoding="utf-8").split("\n", 1)[0].lstrip("# ") for f in files}

    def find(self, name_or_path: str | Path, beside: Path | None = None) -> Path:
        """Return the file with a packaged name, or at a path; `beside` is the folder of the file that names it as its base."""
        name = str(name_or_path)
        if name.endswith((".yaml", ".yml")):
            path = beside / name if beside else Path(name)
            if not os.path.isfile(path):
                raise UserError(f"no {self.kind} file '{path}'.")
            return path
        for folder in (self.folder, beside):
            if folder is not None and os.path.isfile(folder / f"{name}.yaml"):
                return folder / f"{name}.yaml"
        if os.path.isfile(name):
            raise UserError(f"'{name}' is no {self.kind}. For data: `ruplar train embedded-live data.train={name}`.")
        known = unknown(self.kind, name, self.names())
        raise UserError(f"{known} For your own {self.kind}, pass its path, FILE.yaml.")

    def with_bases(self, file: Path) -> list[tuple[Path, Mapping[str, Any]]]:
        """Return a file and those it is based on, each with its content."""
        found: list[tuple[Path, Mapping[str, Any]]] = []
        while True:
            data = read_yaml(file)
            if not isinstance(data, Mapping):
                problem = f"a {self.kind} consists of entries (key: value); this file has none."
                raise UserError(problem, where=str(file))
            found.append((file, data))
            if "base" not in data:
                return found
            base = self.find(data["base"], file.parent)
            if base.resolve() in [one.resolve() for one, _ in found]:
                raise UserError(f"base: '{data['base']}' leads back to this {self.kind}.", where=str(file))
            file = base

    def read(self, file: Path, normal: Callable[[dict[str, Any]], dict[str, Any]] = dict) -> dict[str, Any]:
        """Return a file's content merged over that of its bases; `normal` brings each to its long form first."""
        merged: dict[str, Any] = {}
        for _, data in reversed(self.with_bases(file)):
            own = normal({key: value for key, value in data.items() if key != "base"})
            merged = merge(merged, own, PLUGIN_SECTIONS)
        return merged
