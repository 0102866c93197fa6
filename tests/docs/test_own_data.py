"""The file and the commands of "Your own data" in docs/domains.md: copied, checked, trained on, evaluated."""

import re
from pathlib import Path

import pytest

from ruplar.data.formats import FORMATS

PAGE = (Path(__file__).parents[2] / "docs" / "domains.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_file_of_the_page_can_be_checked_previewed_trained_on_and_evaluated(blocks, follow):
    check, preview, trained, evaluated = [said for _, said in follow(blocks["mine"], {})]
    # five rows: four chains of two steps and one of a single one
    assert "5 of 5 rows" in check and "9 steps" in check
    assert "36" in preview and "26" in preview
    assert "runs/mine/model" in trained and "mine" in evaluated


def test_the_page_lists_every_format():
    table = PAGE.partition("| format | columns |")[2].partition("\n\n")[0]
    assert set(re.findall(r"^\| ([\w-]+) \|", table, re.M)) == set(FORMATS)
