"""Data files: a mistake in a family file, a frame or a word list is reported with the file and the field."""

import pytest
import yaml
from checking import word_problem_fault

from ruplar.errors import UserError
from ruplar.problems.data_files import load
from ruplar.problems.word_problems import generate
from ruplar.problems.word_problems.families import FAMILIES, read_family
from ruplar.problems.word_problems.words import frames_with, read_frame

HEAD = {"about": "Test: a family.", "steps": [1, 1]}
THEME = {"choices": {"items": "toys"}, "plain": ["{a} has {n} {items}."], "ask": ["How many {items} are there?"]}
TEMPLATE = {
    "draw": ["n, m = count(), count()"],
    "text": "{a} has {n} coins and {m} stamps. How many?",
    "solve": "n + m",
}
SCENE = {"scene": {"frames": "gain"}, "text": ["{a} had 5 {x}"], "question": "How many?", "solve": "5 + 5"}


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


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"theme": THEME, "colour": 1}, "mine.yaml\n.*unknown field 'colour'"),
        ({}, "mine.yaml: needs exactly one of theme, template; it has none"),
        ({"theme": THEME, "template": TEMPLATE}, "exactly one of theme, template"),
        ({"theme": THEME, "group": "long"}, "group must be short or situations, not 'long'"),
        ({"theme": {**THEME, "gains": []}}, "mine.yaml: theme\n.*unknown field 'gains'. Did you mean 'gain'"),
        ({"theme": {"plain": ["{n}"]}}, "mine.yaml: theme\n.*field 'ask' is missing"),
        (
            {"theme": {**THEME, "gain": ["{a} finds {m}."]}},
            "theme.gain: unknown placeholder 'm'.*The text is '{a} finds {m}.'",
        ),
        ({"template": {**TEMPLATE, "text": "{a} has {k}."}}, "mine.yaml: template.text: unknown placeholder 'k'"),
        ({"template": {**TEMPLATE, "text": "{a has"}}, "template.text: '{a has' is not a template"),
        ({"template": {**TEMPLATE, "solve": "n + k"}}, r"template.solve\[0\], 'n \+ k'\n.*unknown name 'k'"),
        (
            {"template": {**TEMPLATE, "draw": ["n = cuont()"]}},
            r"template.draw\[0\].*\n.*'cuont'. Did you mean 'count'",
        ),
        ({"template": {**TEMPLATE, "draw": ["n = = 2"]}}, r"template.draw\[0\]: 'n = = 2' is not a statement"),
        ({"template": {**TEMPLATE, "draw": ["import os"]}}, "must be an assignment or an expression"),
        ({"template": {**TEMPLATE, "draw": ["pick = 2"]}}, "'pick' cannot be assigned"),
        ({"template": {"cases": [{"if": "n = 2"}]}}, r"template.cases\[0\].if: 'n = 2' must be a condition"),
        ({"template": {"do": [TEMPLATE, {"txt": "?"}]}}, r"template.do\[1\]\n.*unknown field 'txt'"),
        ({"template": {**SCENE, "scene": {"frames": "gian"}}}, "template.scene.frames: 'gian' is not a condition"),
        ({"template": {**SCENE, "scene": {}}}, "template.scene\n.*field 'frames' is missing"),
    ],
)
def test_a_mistake_in_a_family_file_is_reported_with_its_field(family, fields, message):
    with pytest.raises(UserError, match=f"(?s){message}"):
        family(**fields)


def test_a_file_that_is_not_a_mapping_is_refused(tmp_path):
    (tmp_path / "list.yaml").write_text("[1, 2]")
    (tmp_path / "broken.yaml").write_text("a: [1")
    with pytest.raises(UserError, match="list.yaml: must be a mapping of fields"):
        load(tmp_path / "list.yaml")
    for name in ("broken", "absent"):
        with pytest.raises(UserError, match=f"{name}.yaml: cannot be read as YAML"):
            load(tmp_path / f"{name}.yaml")


def test_a_frame_is_read_from_its_short_forms():
    found = read_frame(
        {"things": ["apples"], "kinds": ["red/green"], "gain": ["got {x} | get"], "holders": ["box/boxes/in"]}, "here"
    )
    assert found.kinds == (("red", "green"),) and found.gain == (("got {x}", "get"),) and found.acts == found.gain
    assert found.holders == (("box", "boxes", "in"),) and not found.place and not found.priced
    with pytest.raises(UserError, match="unknown field 'thing'"):
        read_frame({"thing": []}, "here")
    with pytest.raises(UserError, match="no frame fulfils 'money and place'"):
        frames_with("money and place")
