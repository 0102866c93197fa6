"""What a user gets wrong at the command line, or in Python, and what is said of it before any work is done."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from cases import cases

from ruplar.model.store import METADATA_FILE, find_model

LONG = "Tom has 3 bags of 4 apples. " * 200 + "How many apples does he have?"


def write(path: Path, *rows: dict) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_a_file_that_is_there_is_written_over_only_when_told_to(ruplar, refused, tmp_path):
    (tmp_path / "a.jsonl").write_text("mine\n")
    assert "a.jsonl: exists" in refused("data", "make", "a.jsonl", "--count", "2")
    assert (tmp_path / "a.jsonl").read_text() == "mine\n"
    assert ruplar("data", "make", "a.jsonl", "--count", "2", "--force").code == 0
    assert len((tmp_path / "a.jsonl").read_text().splitlines()) == 2


@pytest.mark.parametrize(("words", "said"), cases(__file__, "refused"))
def test_a_mistake_is_explained(refused, tmp_path, words, said):
    write(tmp_path / "plain.jsonl", {"question": "3+4?", "answer": "7"})
    write(tmp_path / "other.jsonl", {"question": "3+4?", "response": "7"})
    write(tmp_path / "study.json", {"name": "main", "rows": {}})
    message = refused(*words)
    assert all(part in message for part in said), message


@pytest.mark.parametrize(("words", "said"), cases(__file__, "done"))
def test_what_needs_a_word_but_is_no_mistake_is_done(ruplar, words, said):
    found = ruplar(*words)
    assert found.code == 0 and said in " ".join((found.out + found.err).split())


def test_half_a_character_is_named_and_no_traceback(refused, tmp_path):
    assert "half of a character (U+D800" in refused("ask", "embedded", "How many \ud800?", "--device", "cpu")
    (tmp_path / "half.jsonl").write_text('{"question": "How many \\ud83d?", "answer": "7"}\n', encoding="utf-8")
    said = refused("evaluate", "embedded", "--on", "half.jsonl", "--device", "cpu")
    assert "half.jsonl:1" in said and "half of a character" in said


@pytest.fixture
def no_weights(tmp_path) -> Path:
    """A model folder whose weights are missing, so that loading it would fail."""
    card = find_model("embedded:no_cot") / METADATA_FILE
    (tmp_path / "hollow").mkdir()
    return shutil.copy(card, tmp_path / "hollow" / METADATA_FILE).parent


@pytest.mark.parametrize("verb", ["evaluate", "ablate"])
def test_a_set_that_cannot_be_read_is_told_before_the_weights_are(refused, tmp_path, no_weights, verb):
    good = write(tmp_path / "good.jsonl", {"question": "3+4?", "answer": "7"}, {"question": "3+5?", "answer": "8"})
    (tmp_path / "broken.jsonl").write_text("no JSON\n", encoding="utf-8")
    asked = (verb, no_weights, "--device", "cpu", "--on")
    assert "missing.jsonl: no such file" in refused(*asked, f"{good},missing.jsonl")
    assert "broken.jsonl" in refused(*asked, f"{good},broken.jsonl")
    assert "hollow" in refused(*asked, good)  # what can be read leads on to the weights


def test_a_benchmarks_bad_row_is_told_with_evaluates_own_option(refused, ruplar, tmp_path):
    (tmp_path / "some.jsonl").write_text('{"question": "3+4?", "answer": "7"}\n{"question": "5"}\n', encoding="utf-8")
    words = ("evaluate", "embedded:no_cot", "--on", "some.jsonl", "--device", "cpu", "--output", "out")
    said = refused(*words)
    assert "some.jsonl:2" in said and "--skip-bad" in said and "data.skip_bad" not in said
    said = ruplar(*words, "--skip-bad")
    assert said.code == 0 and "partial: only part of some.jsonl was evaluated" in said.words


@pytest.mark.slow
def test_a_question_longer_than_the_model_reads_is_told_by_its_row(refused, tmp_path):
    said = refused("ask", "embedded", LONG, "--device", "cpu")
    assert "question 1 has" in said and "the model supports 1,024" in said
    write(tmp_path / "long.jsonl", {"question": "3+4?", "answer": "7"}, {"question": LONG, "answer": "12"})
    assert "long.jsonl:2: question 2 has" in refused("evaluate", "embedded", "--on", "long.jsonl", "--device", "cpu")


def test_a_question_that_leaves_little_room_is_answered_with_a_warning(caplog):
    from ruplar.reasoner import LatentReasoner

    reasoner = LatentReasoner.from_pretrained("embedded")
    reasoner.model.backbone.plain_model.config.max_position_embeddings = 40
    [answer] = reasoner.ask("Tom has 3 bags of 4 apples. How many apples does he have?")
    assert answer.forwards > 0 and "the model supports 40" in caplog.text


@pytest.mark.slow
def test_every_help_page_fits_eighty_columns_and_describes_each_option(ruplar, monkeypatch):
    from typer.main import get_command

    from ruplar.cli import app

    monkeypatch.setenv("COLUMNS", "80")
    pages = [((), get_command(app))]
    for words, command in pages:  # grows while it is read
        pages += [((*words, name), sub) for name, sub in getattr(command, "commands", {}).items()]
        said = ruplar(*words, "--help")
        assert said.code == 0 and max(map(len, said.out.splitlines())) <= 80, words
        for option in command.params:
            if option.name != "help":
                sentence = getattr(option, "help", None) or ""
                begins = sentence[:1].isupper() or sentence[:1] in "'`" or sentence.startswith("run.json")
                assert begins, (words, option.name)
    assert len(pages) > 25


@pytest.mark.slow
def test_loading_a_model_in_python_draws_no_bars():
    code = "from ruplar.reasoner import LatentReasoner; LatentReasoner.from_pretrained('embedded')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "" and "Loading" not in done.stderr and "%|" not in done.stderr


def test_a_number_with_its_unit_is_a_marked_answer_and_one_in_words_is_noticed(ruplar, tmp_path):
    rows = [{"question": f"{n} and 4?", "cot": f"<<{n}+4={n + 4}>>", "answer": f"{n + 4} apples"} for n in (3, 5)]
    rows.append({"question": "1 and 1?", "cot": "<<1+1=2>>", "answer": "two"})
    write(tmp_path / "apples.jsonl", *rows, rows[0])
    found = ruplar("data", "check", "apples.jsonl", "--json").json
    assert found["right_steps"] == 4
    assert found["unread_answers"] == [{"at": "apples.jsonl:3", "what": "two"}]
    assert found["wrong_ends"] == [{"at": "apples.jsonl:3", "what": "ends in 2, but the answer is two"}]
    assert found["repeats"] == [{"at": "apples.jsonl:4", "what": "3 and 4?"}]


def test_data_check_shows_what_was_understood_of_a_row_and_what_was_not(ruplar, tmp_path):
    chain = "She has <<3 apples + 4 apples = 7 apples>> 7, then <<7*2=14>> and <<14+1=16>>."
    write(tmp_path / "some.jsonl", {"question": "How many?", "cot": chain, "answer": "16"})
    out = ruplar("data", "check", "some.jsonl", "--rows", "1").out
    assert all(line in out for line in cases(__file__, "checked"))
    [row] = ruplar("data", "check", "some.jsonl", "--rows", "1", "--json").json["parsed"]
    assert [step["verdict"].split(":")[0] for step in row["steps"]] == ["not checked", "right", "wrong"]
    assert row["steps"][1]["symbols"] == ["7", "*", "2", "=", "14"]


def test_convert_writes_over_nothing(ruplar, refused, tmp_path):
    write(tmp_path / "prose.jsonl", {"question": "3 and 4?", "answer": "3 + 4 = 7 apples\n#### 7"})
    (tmp_path / "out.jsonl").write_text("mine\n")
    assert "out.jsonl: exists" in refused("data", "convert", "prose.jsonl", "out.jsonl")
    assert "1 of 1 rows converted" in ruplar("data", "convert", "prose.jsonl", "out.jsonl", "--force").out
    converted = {"problem": "3 and 4?", "solution": "<<3+4=7>>", "answer": "7"}
    assert json.loads((tmp_path / "out.jsonl").read_text()) == converted
    for verb, file in (("convert", "prose.jsonl"), ("augment", "out.jsonl")):
        assert "is the input" in refused("data", verb, file, f"../{tmp_path.name}/{file}", "--force")
