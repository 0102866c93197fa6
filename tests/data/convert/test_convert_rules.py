"""Prose → chains by rules: what is read, what is left, and how much of the real sets that is."""

import json

import pytest
from cases import cases

from ruplar import plugins
from ruplar.data.convert.prose import read_prose
from ruplar.data.convert.rules import Rejected, rule_of, verify
from ruplar.errors import UserError

DOMAIN = plugins.make("domains", "arithmetic")


@pytest.mark.parametrize(("prose", "chain"), cases(__file__, "equations"))
def test_equations_in_prose_are_steps(prose, chain):
    assert rule_of("arithmetic")("", prose) == chain


def test_the_work_on_hostile_prose_grows_with_its_length_alone():
    # a rule that tried every beginning of an expression would still be at it tomorrow
    for prose in ("1 a " * 5_000 + "= 3", "(" * 20_000 + "=1", "1+" * 20_000 + "= 7", "= " * 20_000, "1 1/" * 20_000):
        assert rule_of("arithmetic")("", prose) is None


def converted(rows):
    """Source → chain, of the rows whose prose gives one that holds."""
    assert not any("<<" in row.reasoning for row in rows)
    rule, found = rule_of("arithmetic"), {}
    for row in rows:
        try:
            found[row.source] = verify(rule(row.question, row.reasoning) or "", row.question, row.answer, DOMAIN)
        except Rejected:
            continue
    return found


def test_nine_in_ten_of_gsm8ks_solutions_are_converted_and_every_one_re_executes(benchmark_data):
    rows = read_prose(benchmark_data("gsm8k-train") / "gsm8k-train.jsonl", limit=500)
    assert len(converted(rows)) > 450


def test_solutions_with_equations_are_converted_and_every_one_re_executes(data):
    found = converted(read_prose(data / "gsm8k-train.jsonl"))
    assert len(found) == 10 and not {"gsm8k-train.jsonl:3", "gsm8k-train.jsonl:7"} & set(found)
    assert found["gsm8k-train.jsonl:1"] == "<<4/2=2>> <<4+2=6>> <<6*12=72>>"


@pytest.mark.parametrize(("real", "rows", "least"), [(False, 5, 3), (True, 74, 60)], ids=["invented", "real"])
def test_date_understanding_in_big_benchs_own_shape_is_converted(
    data, benchmark_data, tmp_path, run, kept, rejected, real, rows, least
):
    folder = benchmark_data("date-understanding") if real else data
    examples = []
    for line in (folder / "date-understanding-test.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        scores = {row["answer"]: 1, "01/01/2000": 0, "12/31/1999": 0}
        examples.append({"input": row["problem"], "target_scores": scores})
    examples[0]["target_scores"]["12/31/1999"] = 1
    task = {"name": "date_understanding", "preferred_score": "multiple_choice_grade", "examples": examples}
    (tmp_path / "task.json").write_text(json.dumps(task, indent=2), encoding="utf-8")
    found = run(tmp_path / "task.json", domain="dates")
    assert found.total == rows and found.converted >= least
    assert rejected()[0]["reason"] == "broken row" and "marks 2 answers as right" in rejected()[0]["detail"]
    domain = plugins.make("domains", "dates")
    for row in kept():
        assert verify(row["solution"], row["problem"], row["answer"], domain) == row["solution"]


@pytest.mark.parametrize("names", [("input", "target"), ("inputs", "targets")])
def test_a_question_in_the_form_of_a_prompt_is_extracted(tmp_path, run, kept, names):
    asks = "Today is Christmas Eve of 1937. What is the date tomorrow in MM/DD/YYYY?"
    row = {names[0]: f"Q: {asks}\nA:", names[1]: ["12/25/1937"]}
    (tmp_path / "task.json").write_text(json.dumps({"examples": [row]}), encoding="utf-8")
    run(tmp_path / "task.json", domain="dates")
    chain = "<<Dec 24, 1937 + 1 day = Dec 25, 1937>>"
    assert kept() == [{"problem": asks, "solution": chain, "answer": "12/25/1937"}]
    worked = "Q: 1+1?\nA: 2\nQ: 2+2?\nA:"  # a prompt with worked examples is not changed
    (tmp_path / "a.jsonl").write_text(json.dumps({"question": worked, "answer": "4"}) + "\n", encoding="utf-8")
    assert [row.question for row in read_prose(tmp_path / "a.jsonl")] == [worked]


def test_columns_of_any_name_are_read_when_named_and_a_misspelt_one_is_told(tmp_path):
    rows = [{"frage": "3 mal 4?", "loesung": "3 x 4 = 12", "ergebnis": 12}, {"frage": "?", "ergebnis": None}]
    path = tmp_path / "mine.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    first, second = read_prose(path, {"question": "frage", "answer": "ergebnis", "reasoning": "loesung"})
    assert (first.question, first.answer, first.reasoning) == ("3 mal 4?", "12", "3 x 4 = 12")
    assert first.source == "mine.jsonl:1"
    assert "ergebnis" in second.fault
    with pytest.raises(UserError, match="no row has a column 'antwort'.*frage, loesung, ergebnis"):
        read_prose(path, {"question": "frage", "answer": "antwort"})
    [unnamed, _] = read_prose(path)
    assert "name the columns with --question" in unnamed.fault


def test_equal_rows_have_keys_of_their_own_wherever_they_stand(tmp_path):
    row = json.dumps({"question": "3+4?", "answer": "7"})
    other = json.dumps({"question": "3+5?", "answer": "8"})
    (tmp_path / "a.jsonl").write_text(f"{row}\n{other}\n{row}\n", encoding="utf-8")
    (tmp_path / "b.jsonl").write_text(f"{other}\n{row}\n{row}\n", encoding="utf-8")
    a, b = ([row.key for row in read_prose(tmp_path / name)] for name in ("a.jsonl", "b.jsonl"))
    assert len(set(a)) == 3 and set(a) == set(b)


def test_a_domain_without_a_rule_is_an_error():
    with pytest.raises(UserError, match="domain 'logic' has no rule. Packaged rules: arithmetic, dates"):
        rule_of("logic")


def test_a_row_with_half_a_character_is_rejected(tmp_path, run, rejected):
    path = tmp_path / "half.jsonl"
    path.write_text('{"question": "3 \\ud83d?", "answer": "7"}\n{"question": "3+4?", "answer": "3+4=7\\n#### 7"}\n')
    assert run(path).converted == 1
    [row] = rejected()
    assert "lone surrogate" in row["detail"]
