"""Tiny runs as fixtures, and trainers without a run around them."""

from functools import partial
from pathlib import Path

import pytest
from tiny_runs import make_config, write_backbone

SLOW_FILES = {"test_packing", "test_prepare", "test_pretokenized"}
SLOW_FIXTURES = {"backbone_folder", "learner", "taught"}


def pytest_collection_modifyitems(items):
    """Mark the tests that train a model of one of these fixtures as slow."""
    for item in (one for one in items if one.path.parent == Path(__file__).parent):
        if item.path.stem in SLOW_FILES or SLOW_FIXTURES & set(item.fixturenames):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(autouse=True)
def short_answers(monkeypatch, one_thread):
    """Cut validation answers after 8 tokens: those of an untrained model would never end."""
    from ruplar.engine.sampling import Decoding

    monkeypatch.setattr("ruplar.reasoner.Decoding", partial(Decoding, max_answer_tokens=8))


@pytest.fixture(scope="session")
def backbone_folder(tmp_path_factory) -> Path:
    return write_backbone(tmp_path_factory.mktemp("backbone", numbered=False))


@pytest.fixture
def config(backbone_folder):
    """Recipe settings → `RunConfig`."""
    return lambda **settings: make_config(backbone_folder, **settings)


@pytest.fixture
def trainer(config, tmp_path):
    """Recipe settings → a `ReasonerTrainer` as `train` builds it."""
    from ruplar.train.run import TrainingRun

    def make(run: Path = tmp_path / "run", **settings):
        return TrainingRun(config(**settings), run).trainer()

    return make
