"""A journal belongs to its input: another one is refused, more rows at its end are gone on with."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from ruplar.cli.verbs import app
from ruplar.data.convert import ByRules, convert, read_prose
from ruplar.errors import UserError


def write(path, numbers):
    rows = [{"question": f"Twice {n}?", "answer": f"It is 2 * {n} = {2 * n}.\n#### {2 * n}"} for n in numbers]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def typed(*words):
    return CliRunner().invoke(app, ["data", "convert", *map(str, words)])


def test_fewer_rows_onto_a_finished_output_are_refused_and_nothing_is_lost(tmp_path):
    source, output = write(tmp_path / "a.jsonl", range(1, 11)), tmp_path / "out.jsonl"
    assert typed(source, output).exit_code == 0
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    refused = typed(source, output, "--limit", 3)
    assert isinstance(refused.exception, UserError)
    assert "belongs to another input, one of 10 rows; this one has 3." in str(refused.exception)
    assert "name another OUTPUT, or start over with --force" in str(refused.exception)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert typed(source, output, "--limit", 3, "--force").exit_code == 0 and len(lines(output)) == 3


def test_another_input_is_an_error_but_a_moved_one_is_not(tmp_path):
    output = tmp_path / "out.jsonl"
    convert(read_prose(write(tmp_path / "a.jsonl", range(1, 6))), output, "arithmetic", ByRules())
    other = read_prose(write(tmp_path / "b.jsonl", range(2, 7)))
    with pytest.raises(UserError, match="one of 5 rows; this one has 5 with other content"):
        convert(other, output, "arithmetic", ByRules())
    with pytest.raises(UserError, match="one of 5 rows; this one has 9"):
        convert(read_prose(write(tmp_path / "b.jsonl", range(2, 11))), output, "arithmetic", ByRules())
    (tmp_path / "moved").mkdir()
    same = read_prose(write(tmp_path / "moved" / "c.jsonl", range(1, 6)))
    assert convert(same, output, "arithmetic", ByRules()).progress.converted == 5


def test_a_conversion_can_be_extended_from_a_few_rows_to_all(tmp_path):
    source, output, seen = write(tmp_path / "a.jsonl", range(1, 11)), tmp_path / "out.jsonl", []
    convert(read_prose(source, limit=3), output, "arithmetic", ByRules())
    convert(
        read_prose(source), output, "arithmetic", ByRules(), on_progress=lambda progress: seen.append(progress.done)
    )
    assert seen[0] == 3 and len(lines(output)) == 10
    with pytest.raises(UserError, match="one of 10 rows; this one has 3"):
        convert(read_prose(source, limit=3), output, "arithmetic", ByRules())
    assert convert(read_prose(source), output, "arithmetic", ByRules()).progress.converted == 10


def test_a_journal_of_another_version_is_an_error(tmp_path):
    source = read_prose(write(tmp_path / "a.jsonl", [1]))
    old = {"ruplar_convert": 1, "domain": "arithmetic", "by": "rules"}
    (tmp_path / "out.jsonl.journal").write_text(json.dumps(old) + "\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"another version of ruplar \(format 1, this one writes 3\).*--force"):
        convert(source, tmp_path / "out.jsonl", "arithmetic", ByRules())


@pytest.mark.parametrize("names", [("input", "target"), ("inputs", "targets")])
def test_a_question_in_the_form_of_a_prompt_is_extracted(tmp_path, names):
    asks = "Today is Christmas Eve of 1937. What is the date tomorrow in MM/DD/YYYY?"
    row = {names[0]: f"Q: {asks}\nA:", names[1]: ["12/25/1937"]}
    (tmp_path / "task.json").write_text(json.dumps({"examples": [row]}), encoding="utf-8")
    found = convert(read_prose(tmp_path / "task.json"), tmp_path / "out.jsonl", "dates", ByRules())
    assert lines(found.output) == [
        {"problem": asks, "solution": "<<Dec 24, 1937 + 1 day = Dec 25, 1937>>", "answer": "12/25/1937"}
    ]


def test_a_prompt_with_worked_examples_is_not_changed(tmp_path):
    said = "Q: 1+1?\nA: 2\nQ: 2+2?\nA:"
    (tmp_path / "a.jsonl").write_text(json.dumps({"question": said, "answer": "4"}) + "\n", encoding="utf-8")
    assert [row.question for row in read_prose(tmp_path / "a.jsonl")] == [said]
