"""One small random backbone for the tests of a module."""

import pytest
from overfitting import small_backbone


@pytest.fixture(scope="module")
def backbone():
    return small_backbone()
