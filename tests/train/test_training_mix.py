"""Sources of a run: joined or mixed, and free of validation and test questions."""

import json
from dataclasses import replace

import pytest

from ruplar import plugins
from ruplar.config import DataSettings
from ruplar.config.check import check
from ruplar.data.decontamination import EQUAL, PASSAGE, masked, words
from ruplar.data.locations import KNOWN_SETS
from ruplar.data.read import read
from ruplar.errors import UserError
from ruplar.fingerprints import digest, fingerprint_answers
from ruplar.train.dataset import IN_VALID, Joined, Without, load_data

DOMAIN = plugins.make("domains", "arithmetic")
TEST = "Ann has 12 red cars and she sells 5 of them to her friend Tom on Monday. How many are left?"


def load(train, valid, domain=DOMAIN, **settings):
    return load_data(DataSettings.model_validate({"train": train, "valid": valid, **settings}), domain)


def chains(path, questions):
    path.write_text("".join(f"{q}||<<{20 + i}+7={27 + i}>> #### {27 + i}\n" for i, q in enumerate(questions)))
    return str(path)


@pytest.fixture
def files(tmp_path):
    """A test set, a validation set, and training chains that share something with both."""
    test = tmp_path / "test.jsonl"
    test.write_text(json.dumps({"problem": TEST, "answer": "7"}) + "\n")
    valid = chains(tmp_path / "valid.txt", ["Eve has 30 cats and gets 7. How many?"])
    train = chains(
        tmp_path / "train.txt",
        [
            "Bob has 20 cups and gets 7 more. How many?",
            TEST.upper(),
            "Pam and Eve: she sells 5 of them to her friend Tom on Monday. How many are left, 22 or 7?",
            "eve has 30 cats and gets 7. how many?",
            "Ann has 24 red cars and she sells 7 of them to her friend Tom on Monday. How many are left?",
        ],
    )
    return str(test), valid, train


def test_rows_that_are_in_a_test_set_are_dropped_and_counted(files):
    test, valid, train = files
    data = load(train, valid, decontaminate=(test,))
    assert [e.question[:3] for e in data.train] == ["Bob", "Ann"]
    assert data.left_out == {f"{EQUAL} as in {test}": 1, f"{PASSAGE} as in {test}": 1, IN_VALID: 1}
    assert [e.question[:3] for e in data.valid] == ["Eve"]
    assert len(data.fingerprints[f"held against: {test}"]) == 64
    assert len(load(train, None).train) == 5


def test_a_chain_that_equals_a_test_question_up_to_numbers_is_not_augmented(files):
    test, valid, train = files
    entry = {"source": train, "augment": 5, "seed": 1}
    data = load(entry, valid, decontaminate=(test,))
    assert {e.question[:3] for e in data.train} == {"Bob"}
    assert sum(n for why, n in data.left_out.items() if why.startswith("not augmented: 13 words in a row but")) == 1
    assert data.left_out[f"not augmented: {IN_VALID}"] == 1


def test_a_file_read_plain_and_augmented_has_its_rows_counted_once_for_each(tmp_path):
    rows = [
        {"question": "Who is Tom?", "answer": "He has 4.\n#### 4"},
        {"question": "Ann has 31 red and 45 blue cars. How many?", "answer": "<<31+45=76>>\n#### 76"},
    ]
    (tmp_path / "some.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    plain = {"source": str(tmp_path / "some.jsonl")}
    data = load([plain, {**plain, "augment": 5, "seed": 1}], None, skip_bad=True)
    assert data.left_out == {"no step": 1, "not augmented: no step": 1} and len(data.train) == 1 + 5


def test_four_sources_are_joined_with_a_fingerprint_each(data):
    entries = [
        {"source": str(data / "gsm8k-train.jsonl"), "augment": 30, "count": 120, "seed": 1},
        {"source": "word-problems", "count": 60, "seed": 1},
        {"source": "word-problems:short", "count": 40, "seed": 1},
        {"source": "drills", "count": 60, "seed": 1},
    ]
    valid = str(data / "gsm8k-aug-valid.txt")
    tests = tuple(str(data / f"{name}-test.jsonl") for name in ("svamp", "multiarith", "gsm-hard", "gsm8k-aug"))
    mixed = load(entries, valid, skip_bad=True, decontaminate=tests)
    assert len(mixed.train) == 280
    assert [len(list(mixed.train[i].steps)) > 0 for i in (0, 119, 120, 180, 279)] == [True] * 5
    # 5 of the 12 questions are held out, and one of these has no step
    assert mixed.left_out[f"not augmented: {IN_VALID}"] == 4
    names = list(mixed.fingerprints)
    assert [name.partition(": ")[0] for name in names[:5]] == ["train 1", "train 2", "train 3", "train 4", "valid"]
    assert sum(name.startswith("held against") for name in names) == 4
    assert len(mixed.fingerprints[names[0]]) == 64 and "augmented" in names[0]
    again = load(entries, valid, skip_bad=True, decontaminate=tests)
    assert again.fingerprints == mixed.fingerprints
    other = load({**entries[0], "seed": 2}, valid, skip_bad=True)
    assert next(iter(other.fingerprints.values())) != mixed.fingerprints[names[0]]


@pytest.mark.parametrize("real", [False, pytest.param(True, marks=pytest.mark.long)], ids=["invented", "real"])
def test_rows_of_gsm8k_dev_are_neither_trained_on_nor_augmented(data, benchmark_data, monkeypatch, real):
    folder = benchmark_data("gsm8k-dev") if real else data
    monkeypatch.setenv("RUPLAR_DATA", str(folder))
    if not real:  # the three of smallest digest
        train, valid = (read(name, DOMAIN, need_steps=False).examples for name in ("gsm8k-train", "gsm8k-aug-valid"))
        found = {digest(e.question): e for e in train}
        rest = sorted(found.keys() - {digest(e.question) for e in valid})
        rows, fingerprint = fingerprint_answers([found[key] for key in rest[:3]])
        known = replace(KNOWN_SETS["gsm8k-dev"], rows=rows, fingerprint=fingerprint)
        monkeypatch.setitem(KNOWN_SETS, "gsm8k-dev", known)
    dev = read("gsm8k-dev", DOMAIN, need_steps=False).examples
    steps = sum(bool(e.steps) for e in dev)
    # an augmented copy has the words of its question, with other numbers
    asked = {tuple(masked(words(e.question))) for e in dev}

    def loaded(*entries, **settings):
        found = load(list(entries), None, skip_bad=True, **settings)
        return found, sum(tuple(masked(words(e.question))) in asked for e in found.train)

    plain, copies = loaded("gsm8k-train", decontaminate=("gsm8k-dev",))
    assert copies == 0 and plain.left_out["the same question as in gsm8k-dev"] == steps
    assert len(plain.fingerprints["held against: gsm8k-dev"]) == 64
    entry = {"source": "gsm8k-train", "augment": 1 if real else 20, "seed": 1}
    augmented, copies = loaded(entry, decontaminate=("gsm8k-dev",))
    assert copies == 0 and augmented.left_out["not augmented: the same question as in gsm8k-dev"] > steps / 2
    assert loaded(entry)[1] > steps / 4


def test_a_recipe_may_not_train_on_what_holds_test_questions():
    for source, said in ("hub:mwpt5/MAWPS", "contains MultiArith"), ("gsm8k-dev", "'gsm8k-dev' is a selection set"):
        with pytest.raises(UserError, match=said):
            check({"name": "x", "data": {"train": source}, "method": "cot"}, "x.yaml", check_files=False)


def test_a_recipe_names_test_sets_that_exist():
    with pytest.raises(UserError, match="data.decontaminate: unknown dataset 'svmp'. Did you mean 'svamp'"):
        check({"name": "x", "data": {"train": "word-problems", "decontaminate": ["svmp"]}, "method": "cot"}, "x.yaml")


def test_joined_sources_keep_their_order_and_count_from_both_ends():
    joined = Joined([["a", "b"], [], ["c"]])
    assert len(joined) == 3 and list(joined) == ["a", "b", "c"] == [joined[i] for i in range(3)] == joined[:]
    assert joined[-1] == "c"
    with pytest.raises(IndexError):
        joined[3]


def test_a_sequence_without_some_rows_is_a_view():
    assert list(Without("abcde", [0, 1, 4])) == ["c", "d"] == Without("abcde", [0, 1, 4])[:]
    view = Without(["a", "b", "c", "d"], [1])
    assert list(view) == ["a", "c", "d"] and list(view[1:]) == ["c", "d"] and view[-1] == "d"


def test_exclude_valid_can_be_turned_off(tmp_path):
    train, valid = (chains(tmp_path / f"{name}.txt", ["How many?"]) for name in "tv")
    assert len(load(train, valid, exclude_valid=False).train) == 1
    with pytest.raises(UserError, match="no row is left to train on"):
        load(train, valid)


def test_canonical_operands_apply_to_training_rows_only(tmp_path):
    file, valid = tmp_path / "a.txt", chains(tmp_path / "v.txt", ["7 and 20?"])
    file.write_text("3 boxes of 12.||<<12*3=36>> #### 36\nHow many?||<<1+2=3>> #### 3\n")
    written, found = (load(str(file), valid, canonical_operands=canonical) for canonical in (False, True))
    assert [e.steps for e in written.train] == [("12*3=36",), ("1+2=3",)]
    assert [e.steps for e in found.train] == [("3*12=36",), ("1+2=3",)] == [e.steps for e in found.train[:]]
    assert len(found.train) == 2 and found.train[-1] == written.train[-1]
    assert [e.steps for e in found.valid] == [e.steps for e in written.valid] == [("20+7=27",)]
    assert found.fingerprints == written.fingerprints


def test_canonical_operands_need_a_domain_with_operations():
    entry = {"source": "date-problems", "count": 5, "seed": 3}
    with pytest.raises(UserError, match=r"data\.canonical_operands: true .* data\.domain: arithmetic"):
        load(entry, None, plugins.make("domains", "dates"), canonical_operands=True)
