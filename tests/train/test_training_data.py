"""Sources of a run: joined, and free of validation questions."""

import pytest

from ruplar import plugins
from ruplar.config import DataSettings
from ruplar.data.sources import SourceConfig
from ruplar.errors import UserError
from ruplar.train.dataset import IN_VALID, Joined, Without, load_data


@pytest.fixture
def domain():
    return plugins.make("domains", "arithmetic")


def load(train, valid, domain, **settings):
    return load_data(DataSettings(train=train, valid=valid, **settings), domain)


def chains(tmp_path, name, *questions):
    file = tmp_path / f"{name}.txt"
    file.write_text("".join(f"{question}||<<1+2=3>> #### 3\n" for question in questions))
    return SourceConfig(source=str(file))


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


def test_training_rows_that_are_in_valid_are_left_out_and_counted(tmp_path, domain):
    first, second = chains(tmp_path, "a", "How many?", "What  IS it?"), chains(tmp_path, "b", "How far?")
    found = load([first, second], chains(tmp_path, "v", "what is it?", "Else?"), domain)
    assert [e.question for e in found.train] == ["How many?", "How far?"] and found.left_out == {IN_VALID: 1}
    assert [e.question for e in found.valid] == ["what is it?", "Else?"]
    assert list(found.fingerprints) == ["train 1: a.txt", "train 2: b.txt", "valid: v.txt"]


def test_exclude_valid_can_be_turned_off(tmp_path, domain):
    both = chains(tmp_path, "a", "How many?"), chains(tmp_path, "v", "How many?")
    assert len(load([both[0]], both[1], domain, exclude_valid=False).train) == 1
    with pytest.raises(UserError, match="no row is left to train on"):
        load([both[0]], both[1], domain)


def test_written_problems_are_identified_by_seed_and_count(domain):
    source = SourceConfig(source="word-problems", count=5, seed=3)
    found = load([source], None, domain)
    assert found.fingerprints == {"train 1: word-problems": "seed 3, 5 examples"} and len(found.train) == 5
    assert found.valid == ()


def test_canonical_operands_apply_to_training_rows_only(tmp_path, domain):
    file = tmp_path / "a.txt"
    file.write_text("3 boxes of 12.||<<12*3=36>> #### 36\nHow many?||<<1+2=3>> #### 3\n")
    source, valid = SourceConfig(source=str(file)), chains(tmp_path, "v", "2 and 1?")
    written = load([source], valid, domain)
    found = load([source], valid, domain, canonical_operands=True)
    assert [e.steps for e in written.train] == [("12*3=36",), ("1+2=3",)]
    assert [e.steps for e in found.train] == [("3*12=36",), ("1+2=3",)] == [e.steps for e in found.train[:]]
    assert len(found.train) == 2 and found.train[-1] == written.train[-1]
    assert [e.steps for e in found.valid] == [e.steps for e in written.valid] == [("1+2=3",)]
    assert found.fingerprints == written.fingerprints


def test_canonical_operands_need_a_domain_with_operations():
    source = SourceConfig(source="date-problems", count=5, seed=3)
    with pytest.raises(UserError, match=r"data\.canonical_operands: true .* data\.domain: arithmetic"):
        load([source], None, plugins.make("domains", "dates"), canonical_operands=True)
