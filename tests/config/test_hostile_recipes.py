"""Recipes and overrides that no one should write → a named error, at once."""

import pytest

from ruplar.config import load_recipe
from ruplar.errors import UserError

BOMB = "a: &a [x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("prior.operand_share={[a]: b}", "a key must be plain text"),
        ("training={1: 2}", "a key must be plain text"),
        ("prior={true: 2}", "a key must be plain text"),
        ("data.train.².count=5", "²"),
        ("prior.name=..", "neither a known name nor a Python module"),
        ("seed=!!int x", "not YAML"),
        ("seed=!!bool x", "not YAML"),
        ("seed=!!timestamp 2020-13-45", "not YAML"),
        ("data.train={source: [1]}", "source"),
        (f"seed={'9' * 5000}", "not YAML"),
        (f"seed=0x{'f' * 6000}", "the number is too large"),
        (f"data.train={'a' * 100_000}", "unknown dataset"),
        (f"backbone.weights={'a' * 100_000}", "backbone.weights"),
        (f"seed={'[' * 1200}{']' * 1200}", "nested more than 50 deep"),
    ],
)
def test_a_hostile_override_is_refused_in_a_short_message(override, said):
    with pytest.raises(UserError) as error:
        load_recipe("embedded-ruplar", [override])
    assert said in str(error.value) and len(str(error.value)) < 1000


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"{BOMB}data: *i\n", "more than 20 aliases"),
        ("base: embedded-ruplar\nprior: &a {name: *a}\n", "an alias inside its own anchor"),
        ("\n".join(" " * depth + "a:" for depth in range(1200)), "nested more than 50 deep"),
    ],
)
def test_a_hostile_recipe_is_refused_in_a_short_message(text, said, tmp_path):
    (tmp_path / "bad.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(UserError) as error:
        load_recipe(tmp_path / "bad.yaml")
    assert said in str(error.value) and len(str(error.value)) < 1000
