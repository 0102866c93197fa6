"""Imports point one way, methods do not know each other, only the command line prints, and light modules stay light."""

import ast
import re
import subprocess
import sys
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from ruplar.data.cache import NOT_IN_KEY

ORDER = [
    *("errors", "types", "renamed", "settings", "plugins", "io", "cache", "mapped", "fingerprints", "download"),
    *("domains", "problems", "spans", "priors", "data", "embedded", "model", "preview", "config"),
    *("objective", "engine", "methods", "reasoner", "train", "evaluate", "display", "report", "serve", "bench"),
    *("runs", "experiments", "cluster", "demo", "cli"),
]
THROUGH_PLUGINS = ("domains", "priors", "methods")
PACKAGE = Path(__file__).parents[1] / "src" / "ruplar"
FILES = sorted(f for f in PACKAGE.rglob("*.py") if f.parent != PACKAGE or f.stem not in ("__init__", "__main__"))


def place(file):
    """The part of the package a file belongs to: `data` for data/read.py, `errors` for errors.py."""
    return file.relative_to(PACKAGE).with_suffix("").parts[0]


@cache
def tree_of(file):
    return ast.parse(file.read_text(encoding="utf-8"))


def imports(tree, types=False):
    """Every name imported at any depth; those under TYPE_CHECKING only if `types`."""
    exempt = {
        child
        for node in ast.walk(tree)
        if not types and isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for child in ast.walk(node)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import) and node not in exempt:
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node not in exempt:
            assert node.level == 0, "imports are written in full"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("file", FILES, ids=lambda f: str(f.relative_to(PACKAGE)))
def test_imports_never_point_back(file):
    here = place(file)
    assert here in ORDER, f"{here} has no place in ORDER yet; give it one"
    for name in imports(tree_of(file)):
        parts = name.split(".")
        if parts[0] != "ruplar" or parts[1] not in ORDER:
            continue
        assert ORDER.index(parts[1]) <= ORDER.index(here), f"{file.name} imports {name}, which stands above it"
        assert here != "config" or parts[1] not in THROUGH_PLUGINS, f"{file.name} imports {name}, not through plugins"
        if here == parts[1] == "methods":
            assert parts[2] in ("base", file.stem) or parts[2][0] == "_", f"{file.name} imports another method, {name}"


def test_what_is_encoded_ahead_depends_on_all_that_training_may_import_and_on_nothing_else():
    assert list(NOT_IN_KEY) == ORDER[ORDER.index("train") + 1 :]


def test_the_architecture_lists_every_package_in_import_order():
    page = (PACKAGE.parents[1] / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = page.partition("| package | contents |")[2].partition("\n\n")[0]
    assert [name for line in table.splitlines() for name in re.findall(r"`(\w+)`", line.split(" | ")[0])] == ORDER


def module_name(file):
    parts = file.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def test_no_module_imports_itself_through_others():
    """Imports inside functions and for types count too: a circle that is only put off is still a circle."""
    modules = {module_name(file) for file in PACKAGE.rglob("*.py")}
    graph = TopologicalSorter()
    for file in PACKAGE.rglob("*.py"):
        here = module_name(file)
        for name in imports(tree_of(file), types=True):
            while name and name not in modules:
                name = name.rpartition(".")[0]
            # a package's own __init__ is imported before its modules
            if name and not f"{here}.".startswith(f"{name}."):
                graph.add(here, name)
    graph.prepare()  # raises CycleError with the modules of the circle


def test_only_the_command_line_prints():
    for file in FILES:
        if place(file) == "cli":
            continue
        for node in ast.walk(tree_of(file)):
            called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
            assert called not in ("print", "sys.stdout.write", "typer.echo"), f"{file}:{node.lineno} prints"


def test_light_modules_stay_light():
    light = ["ruplar", "ruplar.config", "ruplar.data.sources", "ruplar.evaluate.record", "ruplar.report.tables"]
    light += ["ruplar.experiments.run", "ruplar.experiments.worker"]  # a plan is printed at once, a full GPU reported
    light += [f"ruplar.methods.{f.stem}" for f in sorted((PACKAGE / "methods").glob("*.py"))]
    code = f"""
import importlib, sys
for module in {light}: importlib.import_module(module)
from ruplar import plugins
for kind in plugins.CLASSES:  # settings of every plug-in are read and checked without torch, too
    for name in plugins.names(kind): plugins.load(kind, name).Config()
print({{"torch", "transformers"}} & set(sys.modules))
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "set()"
