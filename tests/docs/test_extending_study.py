"""The study shown in docs/extending.md is taken from the page and planned, with the method shown there."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from ruplar.experiments.plan import load_study, plan

PAGE = (Path(__file__).parents[2] / "docs" / "extending.md").read_text(encoding="utf-8")


def test_the_study_of_the_page_plans_every_row_once_a_value_and_seed(tmp_path, monkeypatch):
    [study] = re.findall(r'^```yaml title="pauses.yaml"\n(.*?)^```$', PAGE, re.M | re.S)
    [method] = re.findall(r'^```python title="extras/pause.py"\n(.*?)^```$', PAGE, re.M | re.S)
    (tmp_path / "pauses.yaml").write_text(study, encoding="utf-8")
    (tmp_path / "extras").mkdir()
    (tmp_path / "extras" / "pause.py").write_text(method, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    try:
        cells = plan(load_study(str(tmp_path / "pauses.yaml")), ["training.max_steps=600"])
    finally:
        for name in [n for n in sys.modules if n.partition(".")[0] == "extras"]:
            del sys.modules[name]
    assert [cell.name for cell in cells[:3]] == ["No-CoT-seed1", "Pause_pauses=2-seed1", "Pause_pauses=6-seed1"]
    assert len(cells) == 9 and {cell.config.training["max_steps"] for cell in cells} == {600}
