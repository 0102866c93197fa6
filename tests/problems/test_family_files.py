"""Family files: a new one is a new family, and a mistake in it is reported with the file and the field."""

import pytest
import yaml
from cases import cases
from checking import word_problem_fault

from ruplar.errors import UserError
from ruplar.problems.data_files import load
from ruplar.problems.word_problems import generate
from ruplar.problems.word_problems.families import FAMILIES, read_family

HEAD = {"about": "Test: a family.", "steps": [1, 1]}
THEME, TEMPLATE = (cases(__file__, name) for name in ("theme", "template"))


@pytest.fixture
def family(tmp_path):
    """Fields → the family of a file with them, compiled."""

    def family(**fields):
        path = tmp_path / "mine.yaml"
        path.write_text(yaml.safe_dump({**HEAD, **fields}))
        load.cache_clear()
        found = read_family(path)
        found.read()
        return found

    return family


def test_a_new_family_is_one_file(family, monkeypatch):
    monkeypatch.setitem(FAMILIES, "mine", family(template=TEMPLATE))
    found = list(generate(50, 1, families=["mine"], steps=(1, 1)))
    assert all(word_problem_fault(e) is None and " coins and " in e.question for e in found) and len(set(found)) > 40


@pytest.mark.parametrize(("fields", "message"), cases(__file__, "mistakes"))
def test_a_mistake_in_a_family_file_is_reported_with_its_field(family, fields, message):
    with pytest.raises(UserError, match=f"(?s){message}"):
        family(**fields)
