"""What several tests of readers share."""

import json

import pytest

from ruplar.data.read import read
from ruplar.domains.arithmetic import Config, Domain


@pytest.fixture
def write():
    """Path and rows, each a text or something JSON can hold → the path, with a row a line."""

    def write(path, *rows):
        path.write_text("".join((r if isinstance(r, str) else json.dumps(r)) + "\n" for r in rows), encoding="utf-8")
        return path

    return write


@pytest.fixture
def only():
    """Source and options of `read` → its one example."""

    def only(source, **options):
        (example,) = read(source, Domain(Config()), **options).examples
        return example

    return only
