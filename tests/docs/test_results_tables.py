"""Tables between `results:NAME` marks are what the command above them makes from the records, to the letter."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ruplar.cli import app

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "results.md"
MADE_BY = re.compile(r"^<!-- made by: ruplar (.*) -->$", re.M)


@pytest.mark.parametrize("line", MADE_BY.findall(PAGE.read_text(encoding="utf-8")))
def test_a_table_is_what_its_command_makes(line, tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    copy = tmp_path / "results.md"
    copy.write_text(PAGE.read_text(encoding="utf-8"), encoding="utf-8")
    found = CliRunner().invoke(app, shlex.split(line.replace("docs/results.md:", f"{copy}:")))
    assert found.exit_code == 0, found.output
    assert copy.read_text(encoding="utf-8") == PAGE.read_text(encoding="utf-8"), "run `make tables`"


def test_every_table_says_what_made_it():
    page = PAGE.read_text(encoding="utf-8")
    blocks = re.findall(r"^<!-- results:(\S+) -->$", page, re.M)
    assert blocks == [line.rpartition(":")[2] for line in MADE_BY.findall(page)] != []
