"""Studies small enough for a test: the embedded model, a few steps, a few questions."""

import shutil

import pytest
from tiny import FINISHED, run, tiny_study


@pytest.fixture
def make_study():
    """Entries of a study file → a checked study of the tiny settings."""
    return tiny_study


@pytest.fixture
def places_of(tmp_path):
    """Name of a study → its folders."""
    from ruplar.experiments.storage import Places

    return lambda name: Places(tmp_path / "results" / name, tmp_path / "runs" / name)


@pytest.fixture
def places(places_of):
    """Folders of the study `tiny`."""
    return places_of("tiny")


@pytest.fixture(scope="session")
def _finished(tmp_path_factory):
    """The records and models of the study `FINISHED`, trained once for all tests."""
    from ruplar.experiments.storage import Places

    folder = tmp_path_factory.mktemp("finished")
    found, _ = run(tiny_study(**FINISHED), Places(folder / "results" / "tiny", folder / "runs" / "tiny"))
    assert not found.failed and not found.left
    return folder


@pytest.fixture
def finished(_finished, places_of):
    """Name of a study → its folders, with a copy of the records and models of the study `FINISHED`."""

    def copy(name):
        places = places_of(name)
        for part, to in (("results", places.results), ("runs", places.work)):
            shutil.copytree(_finished / part, to.parent)  # with what studies share beside their folders
            (to.parent / "tiny").rename(to)
        return places

    return copy
