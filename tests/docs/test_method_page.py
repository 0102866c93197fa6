"""docs/method.md names code, settings and departures; all of them must exist."""

import importlib
import re
from pathlib import Path

import pytest

from ruplar import plugins
from ruplar.config import load_recipe

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "method.md").read_text(encoding="utf-8")
SYMBOLS = [line.split("|") for line in PAGE.split("## 2.")[0].splitlines() if line.count("|") == 5][2:]
DEPARTURES = [int(n) for n in re.findall(r"^\| \*\*D(\d+)\*\*", PAGE, re.M)]
OVERRIDES = re.findall(r"`([a-z_.]+=[\w.]+(?: [a-z_.]+=[\w.]+)*)`", PAGE)


def test_every_name_in_the_table_of_symbols_is_in_the_code():
    names = [name for row in SYMBOLS for name in re.findall(r"`([\w.]+\.\w+)`", row[3])]
    assert len(names) > 15
    for name in names:
        module, attributes = name.split("."), []
        while not (ROOT / "src" / "ruplar" / Path(*module)).with_suffix(".py").is_file():
            attributes.insert(0, module.pop())
            assert module, f"{name}: no such module"
        found = importlib.import_module("ruplar." + ".".join(module))
        for attribute in attributes:
            found = getattr(found, attribute)


def test_every_setting_in_the_table_of_symbols_exists():
    known = {f"method.{field}" for field in plugins.load("methods", "ruplar").Config.model_fields}
    known |= {
        f"prior.{f}" for name in plugins.names("priors") for f in plugins.load("priors", name).Config.model_fields
    }
    known |= {f"data.domain.{f}" for f in ("name", *plugins.load("domains", "arithmetic").Config.model_fields)}
    settings = {name for row in SYMBOLS for name in re.findall(r"`([\w.]+)`", row[4])}
    assert settings - known == {"spans.name"}


@pytest.mark.parametrize("overrides", OVERRIDES)
def test_every_reading_on_the_page_can_be_set(overrides):
    load_recipe("ruplar", overrides.split(), check_files=False)


def test_departures_have_a_number_each_and_those_marked_in_the_code_are_on_the_page():
    assert sorted(set(DEPARTURES)) == sorted(DEPARTURES), "no number stands for two departures"
    marks = [
        (file, line)
        for file in (ROOT / "src").rglob("*.py")
        for line in file.read_text(encoding="utf-8").splitlines()
        if "# differs from the paper:" in line
    ]
    assert marks
    for file, line in marks:
        numbers = [int(n) for n in re.findall(r"\bD(\d+)\b", line)]
        assert numbers and set(numbers) <= set(DEPARTURES), f"{file}: {line.strip()}"
