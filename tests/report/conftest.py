"""The rows of the embedded models."""

import pytest
from figure_toys import RECORDS

from ruplar.report.rows import collect


@pytest.fixture(scope="session")
def rows():
    return collect(RECORDS)
