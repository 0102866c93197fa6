"""The appendix pages of the results are what the command in their first line makes from the records, to the letter."""

import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ruplar.cli import app

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["latency", "efficiency", "main-curves"])
def test_a_page_is_what_its_command_makes(name, tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    page, copy = f"docs/results/{name}.md", tmp_path / f"{name}.md"
    text = Path(page).read_text(encoding="utf-8")
    line = text.partition("\n")[0].removeprefix("<!-- made by: ruplar ").removesuffix(" -->")
    found = CliRunner().invoke(app, shlex.split(line.replace(page, str(copy))))
    assert found.exit_code == 0, found.output
    made = copy.read_text(encoding="utf-8").replace(str(copy), page)
    assert made == text, f"run `ruplar {line}`"
