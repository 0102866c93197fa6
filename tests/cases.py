"""Tables of cases in a YAML file beside their test: `test_dates.py` reads `test_dates.yaml`."""

from pathlib import Path
from typing import Any

import yaml


def cases(test: str, table: str) -> Any:
    """One table; `test` is the `__file__` of the test."""
    return yaml.safe_load(Path(test).with_suffix(".yaml").read_text(encoding="utf-8"))[table]
