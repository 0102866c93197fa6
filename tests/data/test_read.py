import json
import logging
import sys

import pyarrow
import pyarrow.parquet
import pytest
from cases import cases

from ruplar import plugins
from ruplar.data.read import read
from ruplar.domains.arithmetic import Config, Domain
from ruplar.errors import UserError
from ruplar.fingerprints import fingerprint, fingerprint_questions
from ruplar.types import Example

DOMAIN = Domain(Config())


# --- formats ---

FORMATS = cases(__file__, "formats")


@pytest.mark.parametrize("name", FORMATS)
def test_every_layout_of_columns_is_read(tmp_path, write, only, name):
    row, (question, steps, answer, chain) = FORMATS[name]
    found = only(write(tmp_path / "a.jsonl", row), need_steps=False)
    assert found == Example(question, tuple(steps), answer, "a.jsonl:1", chain)


def test_gsm8k_aug_lines_are_parsed(tmp_path, write, only):
    path = write(tmp_path / "a.txt", "Q, Q?||<<4-2=2>> <<2/.5=4>> #### 4")
    assert only(path) == Example("Q, Q?", ("4-2=2", "2/.5=4"), "4", "a.txt:1", "<<4-2=2>> <<2/.5=4>>")


def test_ruplar_test_rows_may_have_a_chain_none_or_python_source(tmp_path, write):
    python = "def solution():\n    x = 1 << 2\n    y = 8 >> 1\n    return x"
    path = write(
        tmp_path / "a.jsonl",
        {"problem": "A?", "solution": "<<3+4=7>>", "answer": "7"},
        {"problem": "B?", "answer": 39},
        {"problem": "C?", "solution": python, "answer": 3244047.0999999996},
        '{"problem": "D?", "answer": 2.010700e-06}',
    )
    examples = read(path, DOMAIN, need_steps=False).examples
    assert [e.steps for e in examples] == [("3+4=7",), (), (), ()]
    # numbers keep their written form, never passing through a float
    assert [e.answer for e in examples] == ["7", "39", "3244047.0999999996", "2.010700e-06"]
    assert examples[2].chain == python


@pytest.mark.parametrize(("row", "said"), cases(__file__, "wrong_fields"))
def test_a_missing_or_wrong_field_is_named(tmp_path, write, row, said):
    with pytest.raises(UserError, match=said):
        read(write(tmp_path / "a.jsonl", row), DOMAIN, need_steps=False)


def test_parquet_reads_as_the_same_columns_in_jsonl(tmp_path):
    rows = [{"question": "Q?", "steps": ["<<1/4=.25>>"], "answer": 0.25}]
    rows += [{"question": "R?", "steps": ["<<3+4=7>>"], "answer": 7.0}]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "a.parquet")
    from_parquet = read(tmp_path / "a.parquet", DOMAIN).examples
    assert from_parquet[0] == Example("Q?", ("1/4=.25",), "0.25", "a.parquet:1", "<<1/4=.25>>")
    assert [e.answer for e in from_parquet] == ["0.25", "7.0"]


def test_a_null_cell_neither_hides_its_column_nor_marks_an_answer(tmp_path):
    rows = [{"question": "Q?", "steps": None, "answer": 7}, {"question": "R?", "steps": ["3+4=7"], "answer": 7}]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "a.parquet")
    assert [e.steps for e in read(tmp_path / "a.parquet", DOMAIN, need_steps=False).examples] == [(), ("3+4=7",)]
    rows = [{"input": "Q?", "target_scores": {"7": 1, "8": 0}}, {"input": "R?", "target_scores": {"9": 1}}]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "b.parquet")  # 9 is null in the first row
    assert [e.answer for e in read(tmp_path / "b.parquet", DOMAIN, need_steps=False).examples] == ["7", "9"]


def test_parquet_without_pyarrow_names_the_extra(tmp_path, monkeypatch):
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UserError, match=r"needs the package 'pyarrow'.*pip install datasets pyarrow"):
        read(tmp_path / "a.parquet", DOMAIN)


def _parquet(path, *columns):
    """Write a Parquet file of one string column per argument, each given as (name, values in bytes)."""
    arrays = [pyarrow.array(values, pyarrow.binary()).view(pyarrow.string()) for _, values in columns]
    pyarrow.parquet.write_table(pyarrow.Table.from_arrays(arrays, [name for name, _ in columns]), path)
    return path.read_bytes()


def _half_of_the_data(path):
    content = _parquet(path, ("question", [b"%d and 1?" % n for n in range(500)]), ("answer", [b"7"] * 500))
    return content[:100] + bytes(len(content) // 2 - 100) + content[len(content) // 2 :]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: b"hello", "a.parquet: not a Parquet file"),
        (_half_of_the_data, "a.parquet: damaged, or not UTF-8 text, in the rows after 0"),
        (lambda path: _parquet(path, ("question", [b"\xff?"]), ("answer", [b"7"])), "damaged, or not UTF-8 text"),
        (lambda path: _parquet(path, ("answer", [b"6"]), ("answer", [b"7"])), "a column occurs more than once"),
    ],
    ids=["not Parquet", "damaged", "not UTF-8", "repeated column"],
)
def test_a_damaged_parquet_file_is_an_error_that_names_it(tmp_path, damage, message):
    (tmp_path / "a.parquet").write_bytes(damage(tmp_path / "a.parquet"))
    with pytest.raises(UserError, match=message):
        read(tmp_path / "a.parquet", DOMAIN, need_steps=False)


ROWS = [{"question": "Q?", "answer": "7"}, {"question": "R?", "answer": "8"}]


@pytest.mark.parametrize("content", cases(__file__, "json_files"))
def test_a_json_file_is_a_list_an_object_with_a_list_or_lines(tmp_path, content):
    (tmp_path / "a.json").write_text(content, encoding="utf-8")
    found = read(tmp_path / "a.json", DOMAIN, need_steps=False).examples
    assert [(e.question, e.answer, e.source) for e in found] == [("Q?", "7", "a.json:1"), ("R?", "8", "a.json:2")]


@pytest.mark.parametrize(("content", "message"), cases(__file__, "broken_json_files"))
def test_a_json_file_that_cannot_be_read_says_what_such_a_file_holds(tmp_path, content, message):
    (tmp_path / "a.json").write_text(content.replace("DEEP", "[" * 5000), encoding="utf-8")
    with pytest.raises(UserError, match=message):
        read(tmp_path / "a.json", DOMAIN)


@pytest.mark.parametrize("suffix", ["json", "jsonl"])
@pytest.mark.parametrize(("row", "message"), cases(__file__, "repeated_keys"))
def test_a_row_with_a_repeated_key_is_an_error_that_names_it(tmp_path, suffix, row, message):
    path = tmp_path / f"a.{suffix}"
    good = '{"question": "R?", "answer": "7"}'
    path.write_text(f"[{good},{row}]" if suffix == "json" else f"{good}\n{row}\n", encoding="utf-8")
    with pytest.raises(UserError, match=message) as found:
        read(path, DOMAIN, need_steps=False)
    assert ("a.json: not valid JSON" if suffix == "json" else "a.jsonl:2") in str(found.value)


def test_a_row_nested_beyond_the_parser_is_a_broken_row(tmp_path, write):
    path = write(tmp_path / "a.jsonl", ROWS[0], '{"question": ' + "[" * 100_000)
    with pytest.raises(UserError, match=r"a.jsonl:2 .*nested too deeply"):
        read(path, DOMAIN, need_steps=False)


@pytest.mark.parametrize("text", ["\n" * 200_000, "<<" * 200_000, ">>" * 100_000 + "<<a" * 100_000, "def " * 100_000])
@pytest.mark.parametrize("domain", ["arithmetic", "dates", "logic"])
def test_long_hostile_chains_are_read_in_linear_time(tmp_path, write, text, domain):
    # quadratic time would be minutes here
    row = {"question": "Q?", "cot": f"a{text}b", "answer": f"+{text}x"}
    reading = read(
        write(tmp_path / "a.jsonl", row, ROWS[0]), plugins.make("domains", domain), need_steps=False, skip_bad=True
    )
    assert reading.examples[-1].question == "Q?"


@pytest.mark.parametrize("domain", ["arithmetic", "dates", "logic"])
def test_a_step_of_many_newlines_is_checked_in_linear_time(domain):
    checker = plugins.make("domains", domain)
    step = "Jan 1, 2000" + "\n" * 200_000 + "x = 3"
    assert checker.unchecked(step) and checker.check(step) is None


def test_a_given_format_takes_precedence_over_detection(tmp_path, write, only):
    path = write(tmp_path / "a.jsonl", {"question": "Q?", "answer": "<<3+4=7>> 7"})
    assert only(path, need_steps=False).answer == "<<3+4=7>> 7"
    with pytest.raises(UserError, match="no readable answer"):
        read(path, DOMAIN, format="gsm8k")


def test_columns_without_a_format_are_listed(tmp_path, write):
    path = write(tmp_path / "a.jsonl", {"prompt": "Q?", "response": "7"})
    with pytest.raises(UserError, match=r"a.jsonl:1: columns prompt, response match no format.*coconut"):
        read(path, DOMAIN)


# --- bad rows ---

BAD = cases(__file__, "bad")


def test_all_kinds_of_bad_rows_are_reported_in_one_error(tmp_path, write):
    with pytest.raises(UserError) as refused:
        read(write(tmp_path / "a.jsonl", *BAD), DOMAIN)
    problems = {p.split(" rows ")[1].split(" (")[0]: p for p in refused.value.problems}
    assert problems.keys() == {"cannot be read", "have no step", "have no readable answer"}
    assert problems["have no step"] == (
        '1 of 10 rows have no step (first: a.jsonl:3 "So he has 7 left."). '
        "The domain 'arithmetic' reads steps written like this: <<20*1.20=24>> <<30-24=6>>. "
        "Choose another data.domain, or set data.skip_bad: true to leave them out."
    )
    assert problems["have no readable answer"].startswith(
        '1 of 10 rows have no readable answer (first: a.jsonl:4 "<<3+4=7>> so 7")'
    )
    broken = problems["cannot be read"]
    assert broken.startswith('6 of 10 rows cannot be read (first: a.jsonl:2 "{broken"')
    assert "a.jsonl:5" in broken and "a.jsonl:7" in broken and "a.jsonl:8" not in broken
    assert "data.skip_bad: true" in broken


def test_with_skip_bad_bad_rows_are_left_out_counted_and_logged(tmp_path, caplog, write):
    with caplog.at_level(logging.WARNING):
        reading = read(path := write(tmp_path / "a.jsonl", *BAD), DOMAIN, skip_bad=True)
    assert [e.source for e in reading.examples] == ["a.jsonl:1", "a.jsonl:6"]
    assert reading.record() == {
        "source": "a.jsonl",
        "sha256": fingerprint(path),
        "questions_sha256": fingerprint_questions(reading.examples),
        "rows": 10,
        "examples": 2,
        "left_out": {"broken row": 6, "no step": 1, "unreadable answer": 1},
        "repeats_kept": 1,
    }
    assert [p.source for p in reading.left_out["broken row"]] == [f"a.jsonl:{n}" for n in (2, 5, 7, 8, 9, 10)]
    assert "2 of 10 rows read" in caplog.text and 'a.jsonl:3 "So he has 7 left."' in caplog.text
    assert reading.report() in caplog.text


def test_a_broken_first_row_does_not_hide_the_format_of_the_rest(tmp_path, write):
    path = write(tmp_path / "a.jsonl", "{broken", {"question": "A?", "answer": "<<3+4=7>>7 #### 7"})
    assert [e.answer for e in read(path, DOMAIN, skip_bad=True).examples] == ["7"]


def test_invalid_utf8_breaks_only_its_row(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"\xef\xbb\xbfA?||<<3+4=7>> #### 7\r\n\r\n\xff||<<3+4=7>> #### 7\r\n")
    reading = read(path, DOMAIN, skip_bad=True)
    assert [(e.question, e.answer) for e in reading.examples] == [("A?", "7")]  # byte-order mark and \r are gone
    assert [p.source for p in reading.left_out["broken row"]] == ["a.txt:3"]


def test_a_repeated_question_is_kept_and_counted(tmp_path, write):
    rows = [{"question": q, "answer": "7"} for q in ("How many?", "how  MANY?", "How many more?")]
    reading = read(write(tmp_path / "a.jsonl", *rows), DOMAIN, need_steps=False)
    assert len(reading.examples) == 3 and [p.source for p in reading.repeats] == ["a.jsonl:2"]


def test_a_file_without_usable_rows_is_an_error(tmp_path, write):
    with pytest.raises(UserError, match="a.jsonl: no usable row: it has no rows"):
        read(write(tmp_path / "a.jsonl"), DOMAIN)
    with pytest.raises(UserError, match="b.jsonl: no usable row: 1 of 1 rows cannot be read"):
        read(write(tmp_path / "b.jsonl", "{broken"), DOMAIN, skip_bad=True)


def test_a_limit_counts_examples(tmp_path, write):
    reading = read(write(tmp_path / "a.jsonl", *BAD), DOMAIN, skip_bad=True, limit=1)
    assert (len(reading.examples), reading.rows) == (1, 1)


# --- fingerprints ---


def test_fingerprints_identify_files_and_question_lists(tmp_path, write):
    path = write(tmp_path / "a.jsonl", {"question": "Q?", "answer": "7"})
    before = fingerprint(path)
    assert len(before) == 64 and fingerprint(path) == before
    write(path, {"question": "Q?", "answer": "8"})
    assert fingerprint(path) != before
    one, two = Example("How many?", (), "7"), Example("And now?", (), "8")
    assert fingerprint_questions([one, two]) == fingerprint_questions([Example("how  many?", ("x",), "9"), two])
    assert fingerprint_questions([one, two]) != fingerprint_questions([two, one])


def test_answers_in_words_are_reported_and_units_are_removed(tmp_path, caplog):
    rows = [{"question": "3 and 4?", "answer": "7 apples"}, {"question": "1 and 1?", "answer": "two"}]
    path = tmp_path / "some.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    with caplog.at_level("WARNING"):
        reading = read(path, DOMAIN, need_steps=False)
    assert [example.answer for example in reading.examples] == ["7", "two"]
    assert [problem.source for problem in reading.in_words] == ["some.jsonl:2"]
    assert "1 of 2 rows have an answer that the domain cannot parse" in caplog.text
