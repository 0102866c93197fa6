"""The code blocks of docs/extending.md and docs/domains.md that have a title, and their commands, typed one by one."""

import re
import shlex
import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def blocks() -> dict[str, str]:
    """Title of a code block → its text."""
    folder = Path(__file__).parents[2] / "docs"
    pages = "".join((folder / name).read_text(encoding="utf-8") for name in ("extending.md", "domains.md"))
    return dict(re.findall(r'^```\w+ title="([\w/. ]+)"\n(.*?)^```$', pages, re.M | re.S))


@pytest.fixture
def walk(blocks, tmp_path, monkeypatch):
    """A working folder with every file of the pages, from which Python imports; nothing of it stays loaded."""
    for name, text in blocks.items():
        if "." in name:
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in [n for n in sys.modules if n.partition(".")[0] == "extras"]:
        del sys.modules[name]


@pytest.fixture
def follow(walk, ruplar):
    """The `ruplar` commands of a block, and more words by verb → verb and output of each."""

    def follow(text: str, more: dict[str, list[str]]) -> list[tuple[str, str]]:
        said = []
        for line in text.splitlines():
            words = shlex.split(line.removeprefix("PYTHONPATH=. "))  # the folder is on the path
            assert words.pop(0) == "ruplar"
            done = ruplar(*words, *more.get(words[0], []))
            assert done.code == 0, f"{line}\n{done.out}\n{done.err}"
            said.append((words[0], done.out))
        return said

    return follow
