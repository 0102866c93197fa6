"""All generators: the same problems for a seed on every machine, disjoint splits, bounds on steps, pinned outputs."""

import hashlib
import importlib
import json
from itertools import islice
from pathlib import Path

import pytest
from cases import cases

from ruplar.domains._date_questions import divide
from ruplar.errors import UserError
from ruplar.problems import date_problems, word_problems
from ruplar.problems.seeding import part_of
from ruplar.problems.word_problems import SHORT, SITUATIONS

SPLITS = ("train", "valid", "test")
GENERATORS = {
    name: importlib.import_module(f"ruplar.problems.{name.replace('-', '_')}")
    for name in ("word-problems", "drills", "date-problems", "logic-problems", "logic-ways", "logic-lookups")
}
PINNED = Path(__file__).with_name("pinned_outputs.json")


@pytest.fixture(params=GENERATORS)
def source(request):
    return request.param


@pytest.fixture
def generate(source):
    return GENERATORS[source].generate


def test_a_problem_depends_only_on_seed_and_index(source, generate):
    problems = list(generate(40, 7))
    assert list(generate(40, 7)) == problems and list(generate(40, 8)) != problems
    assert list(generate(10, 7, start=30)) == problems[30:]
    assert list(islice(generate(10**9, 7), 5)) == problems[:5]
    assert problems[31].source == f"{source}:7:31"
    assert list(generate(2, 1, split="test", start=6)) == list(generate(8, 1, split="test"))[6:]


def test_splits_are_disjoint(source, generate):
    splits = {split: list(generate(40, 1, split=split)) for split in SPLITS}
    # word problems and drills are divided by question, dates by scenario, logic by conclusion (and graph: test_logic_problems)
    key = {
        "date-problems": lambda e: part_of(date_problems.normalize(divide(e.question)[0])),
        **dict.fromkeys(("logic-problems", "logic-ways", "logic-lookups"), lambda e: part_of(e.answer)),
    }.get(source, lambda e: part_of(e.question))
    assert all(key(e) == split for split, found in splits.items() for e in found)
    train, valid, test = ({e.question for e in splits[split]} for split in SPLITS)
    assert not train & valid and not train & test and not valid & test


@pytest.mark.parametrize("group", [SHORT, SITUATIONS], ids=["short", "situations"])
def test_groups_of_word_problems_are_divided_by_question_too(group):
    for split in SPLITS:
        assert {part_of(e.question) for e in word_problems.generate(40, 1, families=group, split=split)} == {split}


@pytest.mark.parametrize(("source", "within", "steps", "outside", "message"), cases(__file__, "bounds"))
def test_steps_can_be_bounded_and_impossible_bounds_are_refused(source, within, steps, outside, message):
    generate = GENERATORS[source].generate
    assert {len(e.steps) for e in generate(60, 1, steps=within)} == set(steps)
    with pytest.raises(UserError, match=message):
        generate(1, 1, steps=outside)


def digest(examples):
    text = "\n".join(repr((e.question, list(e.steps), e.answer)) for e in examples)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def outputs():
    """What is pinned → its hash: every generator in every split, and every family of word problems."""
    found = {f"{s}/{split}": digest(g.generate(30, 1, split=split)) for s, g in GENERATORS.items() for split in SPLITS}
    for family in word_problems.FAMILIES:
        found[f"word-problems:{family}"] = digest(word_problems.generate(40, 7, families=[family]))
    return found


def test_outputs_are_pinned():
    pinned, found = json.loads(PINNED.read_text()), outputs()
    changed = sorted(name for name in pinned.keys() | found.keys() if pinned.get(name) != found.get(name))
    assert not changed, (
        f"These generators give other problems than before: {', '.join(changed)}. Models and results were made from the old "
        "ones. If the change is intended, raise REVISION in the generator's module (add `REVISION = 2` if it has none), run "
        f"`python {Path(__file__).name}` in tests/problems, and say so in the changelog."
    )


if __name__ == "__main__":
    PINNED.write_text(json.dumps(outputs(), indent=1) + "\n")
