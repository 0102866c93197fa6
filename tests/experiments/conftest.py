"""A study small enough for a test: the embedded model, a few steps, a few questions."""

from __future__ import annotations

import pytest
from study_toys import TINY


@pytest.fixture
def make_study():
    """Entries of a study file → a checked study of the tiny settings."""
    from ruplar.experiments.plan import Study

    def make(**entries):
        entries["set"] = {**TINY, **entries.get("set", {})}
        tiny = {"name": "tiny", "seeds": [1], "on": ["valid", {"source": "word-problems", "count": 4}]}
        return Study.model_validate({**tiny, **entries})

    return make
