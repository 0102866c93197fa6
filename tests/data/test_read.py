import json
import logging
import sys

import pyarrow
import pyarrow.parquet
import pytest

from ruplar.data import read as reading_module
from ruplar.data.read import fingerprint, fingerprint_questions, iterate, overlap, read
from ruplar.domains.arithmetic import Config, Domain
from ruplar.errors import UserError
from ruplar.types import Example

DOMAIN = Domain(Config())


# --- formats ---


def test_gsm8k_prose_gives_steps_answer_and_the_chain_as_written(tmp_path, write, only):
    row = {"question": "Q?", "answer": "He has 3+4 = <<3+4=7>>7.\nSo <<7*2=14>>14.\n#### 1,014"}
    assert only(write(tmp_path / "a.jsonl", row)) == Example(
        "Q?", ("3+4=7", "7*2=14"), "1,014", "a.jsonl:1", "He has 3+4 = <<3+4=7>>7.\nSo <<7*2=14>>14."
    )


def test_gsm8k_aug_text_is_question_bars_steps_hashes_answer(tmp_path, write, only):
    path = write(tmp_path / "a.txt", "Q, Q?||<<4-2=2>> <<2/.5=4>> #### 4")
    assert only(path) == Example("Q, Q?", ("4-2=2", "2/.5=4"), "4", "a.txt:1", "<<4-2=2>> <<2/.5=4>>")


@pytest.mark.parametrize("cot", ["<think><<3+4=7>></think>", "<<3+4=7>>"])
def test_ruplar_train_rows_lose_their_think_wrapper_and_their_box(tmp_path, cot, write, only):
    row = {"problem": "Q?", "cot": cot, "cot_answer": r"\boxed{7}"}
    assert only(write(tmp_path / "a.jsonl", row)) == Example("Q?", ("3+4=7",), "7", "a.jsonl:1", "<<3+4=7>>")


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


def test_coconut_lists_give_their_steps_directly(tmp_path):
    rows = [
        {"question": "Q?", "steps": ["<<3+4=7>>", "<<7*2=14>>"], "answer": "14"},
        {"question": "R?", "steps": ["Tom is a terpus."], "answer": "Tom is a lempus."},
    ]
    path = tmp_path / "a.json"
    path.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    first, second = read(path, DOMAIN).examples
    assert first == Example("Q?", ("3+4=7", "7*2=14"), "14", "a.json:1", "<<3+4=7>> <<7*2=14>>")
    assert (second.steps, second.source) == (("Tom is a terpus.",), "a.json:2")


def test_steps_may_be_one_text(tmp_path, write, only):
    row = {"question": "Q?", "steps": "<<3+4=7>> <<7*2=14>>", "answer": "#### 14"}
    assert only(write(tmp_path / "a.jsonl", row)) == Example(
        "Q?", ("3+4=7", "7*2=14"), "14", "a.jsonl:1", "<<3+4=7>> <<7*2=14>>"
    )


PYTHON = "def solution():\n    return 16 * 4933828"


@pytest.mark.parametrize(
    ("row", "question", "answer", "chain"),
    [
        (
            {"ID": "chal-1", "Body": "Tom has 8 bags. ", "Question": "How many?", "Equation": "( 8.0 - 3.0 )", "Answer": 5.0},
            "Tom has 8 bags. How many?", "5.0", "",
        ),
        ({"question": "How many?", "final_ans": "9"}, "How many?", "9", ""),
        ({"iIndex": 1, "sQuestion": "How many?", "lEquations": ["X=3+6"], "lSolutions": [9.0]}, "How many?", "9.0", ""),
        ({"input": "How many?", "code": PYTHON, "target": 78941248.0}, "How many?", "78941248.0", PYTHON),
        ({"input": "How many?", "target": -2}, "How many?", "-2", ""),
    ],
    ids=["svamp", "multiarith", "mawps", "gsm-hard", "gsm-hard without code"],
)  # fmt: skip
def test_benchmarks_are_read_as_they_are_published(tmp_path, write, row, question, answer, chain):
    [found] = read(write(tmp_path / "a.jsonl", row), DOMAIN, need_steps=False).examples
    assert found == Example(question, (), answer, "a.jsonl:1", chain)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"Body": "Tom has 8 bags.", "Question": "How many?", "Answer": None}, "field 'Answer' is missing"),
        ({"sQuestion": "How many?", "lSolutions": [1, 2]}, "field 'lSolutions' is not a list of one answer"),
        (
            {"question": "Q?", "steps": {"a": "1"}, "answer": "1"},
            "field 'steps' is neither a list of texts nor a text",
        ),
    ],
)
def test_what_a_published_row_lacks_is_named(tmp_path, write, row, said):
    with pytest.raises(UserError, match=said):
        read(write(tmp_path / "a.jsonl", row), DOMAIN, need_steps=False)


def test_plain_rows_need_only_question_and_answer(tmp_path, write):
    path = write(
        tmp_path / "a.jsonl", {"question": "Q?", "answer": 7}, {"question": "R?", "cot": "<<1+1=2>>", "answer": 2}
    )
    assert [(e.answer, e.steps) for e in read(path, DOMAIN, need_steps=False).examples] == [
        ("7", ()),
        ("2", ("1+1=2",)),
    ]


def test_parquet_reads_as_the_same_columns_in_jsonl(tmp_path):
    rows = [
        {"question": "Q?", "steps": ["<<1/4=.25>>"], "answer": 0.25},
        {"question": "R?", "steps": ["<<3+4=7>>"], "answer": 7.0},
    ]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "a.parquet")
    from_parquet = read(tmp_path / "a.parquet", DOMAIN).examples
    assert from_parquet[0] == Example("Q?", ("1/4=.25",), "0.25", "a.parquet:1", "<<1/4=.25>>")
    assert [e.answer for e in from_parquet] == ["0.25", "7.0"]


def test_parquet_without_pyarrow_names_the_extra(tmp_path, monkeypatch):
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(UserError, match=r"needs the package 'pyarrow.parquet'.*ruplar\[data\]"):
        read(tmp_path / "a.parquet", DOMAIN)


def test_a_file_that_is_no_parquet_says_so(tmp_path):
    (tmp_path / "a.parquet").write_bytes(b"hello")
    with pytest.raises(UserError, match="a.parquet: not a Parquet file"):
        read(tmp_path / "a.parquet", DOMAIN)


def test_a_named_format_wins_over_the_columns(tmp_path, write, only):
    path = write(tmp_path / "a.jsonl", {"question": "Q?", "answer": "<<3+4=7>> 7"})
    assert only(path, need_steps=False).answer == "<<3+4=7>> 7"
    with pytest.raises(UserError, match="no readable answer"):
        read(path, DOMAIN, format="gsm8k")


def test_an_unknown_format_is_met_with_the_nearest(tmp_path, write):
    path = write(tmp_path / "a.jsonl", {"question": "Q?", "answer": "7"})
    with pytest.raises(UserError, match="Did you mean 'gsm8k'"):
        read(path, DOMAIN, format="gsm8")


def test_columns_that_fit_no_format_are_listed(tmp_path, write):
    path = write(tmp_path / "a.jsonl", {"prompt": "Q?", "response": "7"})
    with pytest.raises(UserError, match=r"a.jsonl:1: columns prompt, response fit no format.*coconut"):
        read(path, DOMAIN)


# --- bad rows ---

BAD = (
    {"question": "A?", "answer": "<<3+4=7>>7 #### 7"},
    "{broken",
    {"question": "B?", "answer": "So he has 7 left. #### 7"},
    {"question": "C?", "answer": "<<3+4=7>> so 7"},
    {"question": "D?", "answer": "<<3+4=7 #### 7"},
    {"question": "a?  ", "answer": "<<3+4=7>>7 #### 7"},
    {"question": "E?"},
    "[1, 2]",
    {"question": " ", "answer": "<<3+4=7>>7 #### 7"},
    {"question": "F?", "answer": True},
)


def test_bad_rows_are_refused_in_one_message_that_counts_and_locates_each_kind(tmp_path, write):
    with pytest.raises(UserError) as refused:
        read(write(tmp_path / "a.jsonl", *BAD), DOMAIN)
    problems = {p.split(" rows ")[1].split(" (")[0]: p for p in refused.value.problems}
    assert problems.keys() == {"cannot be read", "have no step", "have no readable answer"}
    assert problems["have no step"] == (
        '1 of 10 rows have no step (first: a.jsonl:3 "So he has 7 left."). '
        "Domain 'arithmetic' reads steps as in `<<20*1.20=24>> <<30-24=6>>`. "
        "Set data.skip_bad: true to leave them out, or choose another data.domain."
    )
    assert problems["have no readable answer"].startswith(
        '1 of 10 rows have no readable answer (first: a.jsonl:4 "<<3+4=7>> so 7")'
    )
    # 2 broken JSON, 5 unclosed step, 7 no answer, 8 a list, 9 an empty question, 10 a truth value
    broken = problems["cannot be read"]
    assert broken.startswith('6 of 10 rows cannot be read (first: a.jsonl:2 "{broken"')
    assert "a.jsonl:5" in broken and "a.jsonl:7" in broken and "a.jsonl:8" not in broken
    assert "data.skip_bad: true" in broken


def test_with_skip_bad_they_are_left_out_counted_and_logged(tmp_path, caplog, write):
    with caplog.at_level(logging.WARNING):
        reading = read(write(tmp_path / "a.jsonl", *BAD), DOMAIN, skip_bad=True)
    assert [e.source for e in reading.examples] == ["a.jsonl:1", "a.jsonl:6"]
    assert reading.rows == 10
    counts = {reason: len(problems) for reason, problems in reading.left_out.items()}
    assert counts == {"broken row": 6, "no step": 1, "unreadable answer": 1}
    assert [p.source for p in reading.left_out["broken row"]] == [f"a.jsonl:{n}" for n in (2, 5, 7, 8, 9, 10)]
    assert "2 of 10 rows read" in caplog.text and 'a.jsonl:3 "So he has 7 left."' in caplog.text
    assert reading.report() in caplog.text


def test_a_row_without_a_step_is_fine_where_none_is_needed(tmp_path, write, only):
    path = write(tmp_path / "a.jsonl", {"question": "B?", "answer": "So he has 7 left. #### 7"})
    assert only(path, need_steps=False).steps == ()


def test_a_broken_first_row_does_not_hide_the_format_of_the_rest(tmp_path, write):
    path = write(tmp_path / "a.jsonl", "{broken", {"question": "A?", "answer": "<<3+4=7>>7 #### 7"})
    assert [e.answer for e in read(path, DOMAIN, skip_bad=True).examples] == ["7"]


def test_bytes_that_are_no_utf8_break_their_row_only(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"\xef\xbb\xbfA?||<<3+4=7>> #### 7\r\n\r\n\xff||<<3+4=7>> #### 7\r\n")
    reading = read(path, DOMAIN, skip_bad=True)
    assert [(e.question, e.answer) for e in reading.examples] == [("A?", "7")]  # byte-order mark and \r are gone
    assert [p.source for p in reading.left_out["broken row"]] == ["a.txt:3"]


@pytest.mark.parametrize(
    ("duplicates", "kept", "left_out", "repeats"), [("keep", 3, {}, 1), ("drop", 2, {"duplicate": 1}, 0)]
)
def test_a_repeated_question_is_kept_and_noted_or_dropped_and_counted(
    tmp_path, duplicates, kept, left_out, repeats, write
):
    rows = [{"question": q, "answer": "7"} for q in ("How many?", "how  MANY?", "How many more?")]
    reading = read(write(tmp_path / "a.jsonl", *rows), DOMAIN, need_steps=False, duplicates=duplicates)
    assert len(reading.examples) == kept
    assert {r: len(p) for r, p in reading.left_out.items()} == left_out
    assert [p.source for p in reading.repeats] == ["a.jsonl:2"][:repeats]


def test_a_repeated_question_can_be_refused(tmp_path, write):
    rows = [{"question": "How many?", "answer": "7"}] * 2
    path = write(tmp_path / "a.jsonl", *rows)
    with pytest.raises(UserError, match=r'1 of 2 rows repeat an earlier question \(first: a.jsonl:2 "How many\?"\)'):
        read(path, DOMAIN, need_steps=False, duplicates="refuse")
    assert len(read(path, DOMAIN, need_steps=False, duplicates="refuse", skip_bad=True).examples) == 1


def test_an_empty_file_and_one_with_nothing_left_are_refused(tmp_path, write):
    with pytest.raises(UserError, match="a.jsonl: no example is left: it holds no row"):
        read(write(tmp_path / "a.jsonl"), DOMAIN)
    with pytest.raises(UserError, match="b.jsonl: no example is left: 1 of 1 rows cannot be read"):
        read(write(tmp_path / "b.jsonl", "{broken"), DOMAIN, skip_bad=True)


# --- streaming and limits ---


def test_iterate_reads_no_further_than_it_is_asked_to(tmp_path, monkeypatch, write):
    path = write(tmp_path / "a.jsonl", *[{"question": f"{n}?", "answer": "<<1+1=2>> #### 2"} for n in range(100)])
    met = []
    to_example = reading_module.to_example
    monkeypatch.setattr(reading_module, "to_example", lambda row, *rest: met.append(row) or to_example(row, *rest))
    examples = iterate(path, DOMAIN)
    assert [next(examples).question for _ in range(3)] == ["0?", "1?", "2?"]
    assert len(met) == 3
    assert len(list(iterate(path, DOMAIN, limit=5))) == 5


def test_iterate_stops_at_a_bad_row_or_logs_it(tmp_path, caplog, write):
    path = write(tmp_path / "a.jsonl", *BAD)
    with pytest.raises(UserError, match="a.jsonl:2"):
        list(iterate(path, DOMAIN))
    assert [e.source for e in iterate(path, DOMAIN, skip_bad=True)] == ["a.jsonl:1", "a.jsonl:6"]
    assert "6 of 10 rows cannot be read" in caplog.text


def test_a_limit_counts_examples_and_must_be_positive(tmp_path, write):
    path = write(tmp_path / "a.jsonl", *BAD)
    reading = read(path, DOMAIN, skip_bad=True, limit=1)
    assert (len(reading.examples), reading.rows) == (1, 1)
    for reader in (read, iterate):
        with pytest.raises(UserError, match="must be at least 1, got 0"):
            reader(path, DOMAIN, limit=0)


# --- fingerprints and overlap ---


def test_fingerprints_tell_files_and_question_lists_apart(tmp_path, write):
    path = write(tmp_path / "a.jsonl", {"question": "Q?", "answer": "7"})
    before = fingerprint(path)
    assert len(before) == 64 and fingerprint(path) == before
    write(path, {"question": "Q?", "answer": "8"})
    assert fingerprint(path) != before
    one, two = Example("How many?", (), "7"), Example("And now?", (), "8")
    assert fingerprint_questions([one, two]) == fingerprint_questions([Example("how  many?", ("x",), "9"), two])
    assert fingerprint_questions([one, two]) != fingerprint_questions([two, one])


def test_the_record_of_a_reading_holds_counts_and_fingerprints(tmp_path, write):
    path = write(tmp_path / "a.jsonl", *BAD)
    reading = read(path, DOMAIN, skip_bad=True)
    assert reading.record() == {
        "source": "a.jsonl",
        "sha256": fingerprint(path),
        "questions_sha256": fingerprint_questions(reading.examples),
        "rows": 10,
        "examples": 2,
        "left_out": {"broken row": 6, "no step": 1, "unreadable answer": 1},
        "repeats_kept": 1,
    }


def test_overlap_parts_the_training_set_at_held_out_questions():
    train = [Example(q, (), "7") for q in ("A costs 1.5?", "B?", "A costs 15?")]
    kept, shared = overlap(train, [Example("a  COSTS 1.5?", (), "0")])
    assert [e.question for e in kept] == ["B?", "A costs 15?"]
    assert [e.question for e in shared] == ["A costs 1.5?"]


def test_answers_in_words_are_kept_and_told_and_numbers_with_units_are_numbers(tmp_path, caplog):
    rows = [{"question": "3 and 4?", "answer": "7 apples"}, {"question": "1 and 1?", "answer": "two"}]
    path = tmp_path / "some.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    with caplog.at_level("WARNING"):
        reading = read(path, DOMAIN, need_steps=False)
    assert [example.answer for example in reading.examples] == ["7", "two"]
    assert [problem.source for problem in reading.in_words] == ["some.jsonl:2"]
    assert "1 of 2 rows have an answer that the domain cannot read" in caplog.text


def test_a_row_with_half_a_character_is_broken(tmp_path):
    path = tmp_path / "half.jsonl"
    path.write_text('{"question": "How many \\ud83d?", "answer": "7"}\n', encoding="utf-8")
    with pytest.raises(UserError, match=r"half.jsonl:1 .*half of a character"):
        read(path, DOMAIN, need_steps=False)
