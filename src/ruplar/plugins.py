"""Kind and name → plug-in module. The name *is* the file name; there is no registry, and modules are imported on demand.

The first docstring line of a plug-in file describes it; the file defines `Config` (a `Settings`) and one class named after
its kind. A dotted name (`my_package.units`) loads a module from outside the package.
"""

import ast
import importlib
import importlib.util
import pkgutil
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

from ruplar.errors import UserError, unknown

CLASSES = {"domains": "Domain", "priors": "Prior", "spans": "Spans", "methods": "Method"}
"""Kind → the class that each of its files defines."""

_DOMAIN = ("EXAMPLE", "split", "symbols", "result", "check", "unchecked", "extract", "same")
METHODS = {"domains": _DOMAIN, "priors": ("build",), "spans": ("cut",)}
"""Kind → members its class must have; checked when the plug-in is loaded."""


def names(kind: str) -> list[str]:
    """Return the names of a kind, sorted: its files without `base` and private ones."""
    found = (m.name for m in pkgutil.iter_modules([str(Path(__file__).parent / kind)]))
    return sorted(n for n in found if n != "base" and not n.startswith("_"))


def describe(kind: str, name: str) -> str:
    """Return the first line of the plug-in's docstring, without importing it."""
    file = Path(__file__).parent / kind / f"{name}.py"
    return (ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or "").split("\n")[0]


def load(kind: str, name: str) -> ModuleType:
    if "." in name:
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError as error:
            way = f"Put the folder that contains {name.partition('.')[0]} on the path: PYTHONPATH=FOLDER ruplar …"
            raise UserError(f"{kind.removesuffix('s')} '{name}': cannot be imported: {error}. {way}") from error
        except Exception as error:
            frame = traceback.extract_tb(error.__traceback__)[-1]
            at: Any = error if isinstance(error, SyntaxError) else frame
            said = f"{type(error).__name__} in {at.filename}:{at.lineno}: {error}"
            raise UserError(f"{kind.removesuffix('s')} '{name}': {said}") from error
    elif name in names(kind):
        module = importlib.import_module(f"ruplar.{kind}.{name}")
    else:
        raise UserError(unknown(kind.removesuffix("s"), name, names(kind)))
    missing = [c for c in ("Config", CLASSES[kind]) if not hasattr(module, c)]
    if missing:
        raise UserError(f"{kind}: '{name}' does not define {' and '.join(missing)}; see docs/extending.md.")
    lacking = [name for name in METHODS.get(kind, ()) if not hasattr(getattr(module, CLASSES[kind]), name)]
    if lacking:
        raise UserError(f"{kind}: '{name}' has a {CLASSES[kind]} without {', '.join(lacking)}; see docs/extending.md.")
    return module


def make(kind: str, name: str, settings: dict[str, Any] | None = None) -> Any:
    """Return an instance of the plug-in with validated settings: `make("priors", "mixture", {"operand_share": 0.2})`."""
    module = load(kind, name)
    made = getattr(module, CLASSES[kind])(module.Config(**(settings or {})))
    if kind == "priors" and not hasattr(made, "dynamic"):
        raise UserError(f"prior '{name}': its class has no `dynamic: bool`; see docs/extending.md.")
    return made
