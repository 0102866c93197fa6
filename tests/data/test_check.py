"""The report of `ruplar data check`."""

import json

import pytest

from ruplar import plugins
from ruplar.data.check import check_chains
from ruplar.data.sources import SourceConfig, open_source
from ruplar.errors import UserError

DATES, LOGIC, ARITHMETIC = (plugins.make("domains", name) for name in ("dates", "logic", "arithmetic"))
TOLD = "Today is Jul {}, 1972. What is the date tomorrow in MM/DD/YYYY?"


def dates_file(folder, *chains):
    """Questions for the day after Jul 9, 10, …, each with its chain and the right answer."""
    told = enumerate(chains, start=9)
    rows = [{"question": TOLD.format(day), "cot": c, "answer": f"07/{day + 1:02d}/1972"} for day, c in told]
    file = folder / "days.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(file)


@pytest.fixture
def wrong_ends(tmp_path):
    """The first chain is right; every step of the others is too, but they end in another day than marked, or in none."""
    further, none = "<<Jul 10, 1972 + 2 days = Jul 12, 1972>>", "<<Jul 11, 1972 + 1 day>>"
    return dates_file(tmp_path, "<<Jul 9, 1972 + 1 day = Jul 10, 1972>>", further, none)


def test_a_chain_that_does_not_end_in_its_answer_is_not_trained_on(wrong_ends):
    source = SourceConfig(source=wrong_ends)
    with pytest.raises(
        UserError, match=r"2 of 3 chains are wrong \(first: days.jsonl:2 ends in Jul 12 1972, but the answer is"
    ):
        open_source(source, DATES, split="train")
    kept = open_source(source, DATES, split="train", skip_bad=True)
    assert [e.source for e in kept.examples] == ["days.jsonl:1"] and kept.record["left_out"] == {"wrong chain": 2}
    asked = open_source(source, DATES, split="test")
    assert len(asked.examples) == 3 and asked.record["wrong_kept"] == 2


def test_arithmetic_accepts_chains_with_a_wrong_end(tmp_path):
    # GSM8K has chains whose last result is not the marked answer; they are reported, not rejected
    row = {"question": "How many?", "cot": "<<1+1=2>>", "answer": "3"}
    file = tmp_path / "sums.jsonl"
    file.write_text(json.dumps(row) + "\n", encoding="utf-8")
    assert len(open_source(SourceConfig(source=str(file)), ARITHMETIC, split="train").examples) == 1
    found = check_chains(str(file), ARITHMETIC)
    assert found.examples == 1 and found.refused == [] and len(found.found["wrong_ends"]) == 1
    assert "1 of 1 rows have a usable chain\n" in found.text()


def test_chains_that_training_rejects_are_not_called_usable(wrong_ends, data):
    found = check_chains(wrong_ends, DATES)
    assert (found.examples, len(found.refused), found.as_dict()["examples"]) == (1, 2, 1)
    first = found.text().splitlines()[0]
    assert "days.jsonl: 1 of 3 rows have a usable chain; 2 have a wrong one, which training rejects" in first
    said = "ends in Jul 12 1972, but the answer is 07/11/1972"
    assert found.as_dict()["refused"][0] == {"at": "days.jsonl:2", "what": said}
    train = check_chains("date-understanding-train", DATES, data_dir=data)
    assert "8 of 11 rows have a usable chain; 3 have" in train.text()  # 11 - 3, as training counts them
    assert "11 steps, 1.00 per chain" in train.text()


def test_wrong_steps_are_counted_with_their_rows(tmp_path):
    bad = "<<Jul 9, 1972 + 2 days = Jul 10, 1972>> <<Jul 10, 1972 - 1 day = Jul 10, 1972>>"
    found = check_chains(dates_file(tmp_path, bad), DATES)
    assert "  2 wrong steps, in 1 row\n" in found.text()


@pytest.mark.parametrize(
    ("domain", "example"),
    [(ARITHMETIC, "<<20*1.20=24>> <<30-24=6>>"), (DATES, "<<Jul 9, 1972 - 1 day = Jul 8, 1972>>")],
    ids=["arithmetic", "dates"],
)
@pytest.mark.parametrize("chain", [{}, {"cot": "3 and 4 is 7, which is the answer"}], ids=["no chain", "no marks"])
def test_rows_without_steps_are_reported_with_an_example_of_a_step(tmp_path, domain, example, chain):
    file = tmp_path / "mine.jsonl"
    file.write_text(json.dumps({"question": "3 and 4?", "answer": "7", **chain}) + "\n", encoding="utf-8")
    with pytest.raises(
        UserError, match="no usable row: 1 of 1 rows have no step.*reads steps written like this"
    ) as bad:
        check_chains(str(file), domain)
    assert example in str(bad.value)
    with file.open("a", encoding="utf-8") as more:
        more.write(json.dumps({"question": "Which?", "cot": domain.EXAMPLE[0], "answer": domain.EXAMPLE[1]}) + "\n")
    assert f"reads steps written like this: {example}" in check_chains(str(file), domain).text()
