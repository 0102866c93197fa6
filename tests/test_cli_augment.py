"""`ruplar data augment` and `data make` as a user meets them."""

import json

from typer.testing import CliRunner

from ruplar.cli import app

QUESTION = "Tom has 40 cars, buys 35 more cars at the fair and then gives all of them to Ann. How many?"


def run(*arguments):
    return CliRunner().invoke(app, ["data", *arguments])


def write(path, rows):
    path.write_text("".join(f"{question}||{chain} #### {answer}\n" for question, chain, answer in rows))
    return str(path)


def test_augment_writes_problems_and_says_what_was_left_out(tmp_path):
    source = write(tmp_path / "in.txt", [(QUESTION, "<<40+35=75>>", 75), ("It is 9:15, walk 31.", "<<31-9=22>>", 22)])
    done = run("augment", source, str(tmp_path / "out.jsonl"), "--count", "20", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.output)
    assert (found["rows"], found["used"], found["written"]) == (2, 1, 20)
    assert found["left_out"] == {"the chain uses a date or a time of day": 1}
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert len({row["problem"] for row in rows}) == 20 and rows[0]["solution"].startswith("<<")
    again = run("augment", source, str(tmp_path / "out.jsonl"), "--count", "20")
    assert again.exit_code != 0  # it is there
    said = run("augment", source, str(tmp_path / "out.jsonl"), "--count", "20", "--force").output
    assert "20 problems from 1 of 2 chains" in said and "in.txt:2  It is 9:15" in said


def test_held_out_questions_and_test_sets_are_not_augmented(tmp_path):
    source = write(tmp_path / "in.txt", [(QUESTION, "<<40+35=75>>", 75)])
    for option in ("--valid", "--against"):
        done = run("augment", source, str(tmp_path / f"out{option}.jsonl"), option, source, "--json")
        assert json.loads(done.output)["written"] == 0
        # no file without a problem, and a script that goes on with it is told
        assert done.exit_code == 1 and not (tmp_path / f"out{option}.jsonl").exists()
    said = run("augment", source, str(tmp_path / "out.jsonl"), "--valid", source).output
    assert "none of 1 chains can be augmented" in said and "its question is held out" in said


def test_make_writes_short_problems_and_drills(tmp_path):
    assert run("make", str(tmp_path / "s.jsonl"), "--count", "5", "--families", "short").exit_code == 0
    assert run("make", str(tmp_path / "d.jsonl"), "--count", "5", "--drills").exit_code == 0
    assert len((tmp_path / "d.jsonl").read_text().splitlines()) == 5
    assert run("make", str(tmp_path / "x.jsonl"), "--drills", "--families", "short").exit_code != 0
    assert "unknown family ''" in str(run("make", str(tmp_path / "x.jsonl"), "--families", "").exception)
