"""The commands and the Python of the guides run; those that cannot run here are listed with the reason."""

import re
import shlex
from pathlib import Path

import pytest
from cases import cases

ROOT = Path(__file__).parents[2]
GUIDES = ("quickstart", "training", "evaluating", "domains", "scale")
FENCE = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```$", re.M | re.S)
BLOCKS = [
    (guide, language, text)
    for guide in GUIDES
    for language, text in FENCE.findall((ROOT / "docs" / f"{guide}.md").read_text(encoding="utf-8"))
]
COMMANDS = {
    part.partition("#")[0].strip(): guide
    for guide, language, text in BLOCKS
    if language == "bash"
    for line in text.splitlines()
    for part in line.split(" && ")
    if part.startswith("ruplar ")
}
"""Command → guide; the file `mine.jsonl` and its commands are run by test_own_data.py."""

ELSEWHERE, SHORTER = (cases(__file__, name) for name in ("elsewhere", "shorter"))
RUN = [command for command in COMMANDS if not any(part in command for part in ELSEWHERE)]


def test_every_reason_applies_to_a_command():
    assert len(RUN) >= 10
    assert [part for part in ELSEWHERE if not any(part in command for command in COMMANDS)] == []
    assert [start for start in SHORTER if not any(command.startswith(f"ruplar {start}") for command in RUN)] == []


@pytest.mark.slow
@pytest.mark.parametrize("command", RUN)
def test_a_command_of_a_guide_runs(command, tmp_path, ruplar):
    (tmp_path / "results").symlink_to(ROOT / "results")
    more = [word for start, words in SHORTER.items() if command.startswith(f"ruplar {start}") for word in words]
    said = ruplar(*shlex.split(command)[1:], *more)
    assert said.code == 0 and len(said.out) > 20, said.err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("guide", "text"), [(guide, text) for guide, language, text in BLOCKS if language == "python"]
)
def test_the_python_of_a_guide_runs(guide, text, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    exec(compile(text, f"docs/{guide}.md", "exec"), {})
    assert capsys.readouterr().out.strip()
