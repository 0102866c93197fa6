"""A study small enough for a test: the embedded model, a few steps, a few questions."""

from __future__ import annotations

import pytest
from tiny import TINY


@pytest.fixture
def make_study():
    """Entries of a study file → a checked study of the tiny settings."""
    from ruplar.experiments.plan import Study

    def make(**entries):
        entries["set"] = {**TINY, **entries.get("set", {})}
        tiny = {"name": "tiny", "seeds": [1], "on": ["valid", {"source": "word-problems", "count": 4}]}
        return Study.model_validate({**tiny, **entries})

    return make


@pytest.fixture
def places_of(tmp_path):
    """Name of a study → its folders."""
    from ruplar.experiments.storage import Places

    return lambda name: Places(tmp_path / "results" / name, tmp_path / "runs" / name)


@pytest.fixture
def places(places_of):
    """Folders of the study `tiny`."""
    return places_of("tiny")
