"""A conversion killed at any moment resumes: no row is lost, repeated or requested again; a journal belongs to its input."""

import json
import os
import signal
import subprocess
import sys
import time
from random import Random

import pytest

from ruplar.data.convert.run import _journal
from ruplar.errors import UserError

PROSE = [
    {"question": "Half of 48, and both?", "answer": "It is 48/2 = 24.\nTogether 48+24 = 72.\n#### 72"},
    {"question": "3 bags of 4?", "answer": "That is 3 x 4 = 12 apples.\n#### 12"},
    {"question": "A wrong one?", "answer": "It is 3 + 4 = 8.\n#### 8"},
    {"question": "3 bags of 4?", "answer": "That is 3 x 4 = 12 apples.\n#### 12"},
    {"question": "No sum at all?", "answer": "It is seven.\n#### 7"},
]


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture
def prose(tmp_path):
    """A small file in prose: three rows can be converted, two of them alike; two cannot."""
    return write(tmp_path / "prose.jsonl", PROSE)


@pytest.fixture
def whole(prose, run, kept, rejected):
    """What a run gives that nobody disturbs."""
    run(prose)
    assert [row["solution"] for row in kept()] == ["<<48/2=24>> <<48+24=72>>", "<<3*4=12>>", "<<3*4=12>>"]
    assert [row["reason"] for row in rejected()] == ["a step is wrong", "no rule matches"]
    return kept(), rejected()


def test_a_conversion_resumes_from_a_journal_cut_off_at_any_byte(prose, whole, run, kept, rejected, journal, tmp_path):
    file, output = tmp_path / "out.jsonl.journal", tmp_path / "out.jsonl"
    content = file.read_bytes()
    ends = [at for at, byte in enumerate(content) if byte == ord("\n")]
    places = sorted({*range(0, len(content), 29), *(at + off for at in ends for off in (0, 1))})
    assert len(places) > 25
    for cut in places:
        file.write_bytes(content[:cut])
        output.unlink()
        run(prose)
        assert (kept(), rejected()) == whole
        keys = [row["key"] for row in journal()]
        assert len(keys) == len(set(keys)) == len(PROSE)


@pytest.mark.slow
def test_a_command_killed_twice_converts_every_row(tmp_path, chat_server, sums, kept, rejected, journal, started):
    def script(question, times):
        a, b = (int(word) for word in question.rstrip("?").split() if word.isdigit())
        wrong = a % 7 == 0
        return {"text": f"<<{a}+{b}={a + b + wrong}>>", "delay": 0.03}

    count, rng = 90, Random(3)
    source, output, server = sums(count), tmp_path / "out.jsonl", chat_server(script)
    command = [
        *(sys.executable, "-m", "ruplar", "data", "convert", source, output, "--by", "llm", "--endpoint", server.url),
        *("--model", "m", "--attempts", "1", "--concurrency", "3"),
    ]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    kills = 0
    for _ in range(2):
        before = sum(server.asked.values())
        process = started(*command, **quiet)
        while sum(server.asked.values()) < before + rng.randint(2, 30) and process.poll() is None:
            time.sleep(0.01)
        time.sleep(rng.random() * 0.03)
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
            kills += 1
        process.wait(60)
    assert kills == 2 and not output.exists()
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert [row["answer"] for row in kept()] == [str(3 * n) for n in range(1, count + 1) if n % 7]
    assert [row["answer"] for row in rejected()] == [str(3 * n) for n in range(1, count + 1) if n % 7 == 0]
    # a row in flight at a kill is asked again, no other
    assert sum(server.asked.values()) <= count + kills * 3 and max(server.asked.values()) <= 1 + kills
    keys = [row["key"] for row in journal()]
    assert len(keys) == len(set(keys)) == count


def test_a_journal_of_other_settings_is_refused(prose, run):
    run(prose)
    with pytest.raises(UserError, match="another input or other settings: 5 of its 5 rows.*--force"):
        run(prose, domain="dates")


def test_a_damaged_journal_line_is_named(prose, run, tmp_path):
    run(prose)
    journal = tmp_path / "out.jsonl.journal"
    text = journal.read_text().splitlines()
    journal.write_text("\n".join([*text[:2], "{nonsense", *text[2:]]) + "\n")
    with pytest.raises(UserError, match=r"out.jsonl.journal:3 cannot be read"):
        run(prose)


def test_two_conversions_into_one_file_are_an_error(tmp_path):
    with _journal(tmp_path / "a.journal"), pytest.raises(UserError, match="another conversion is using"):
        _journal(tmp_path / "a.journal").__enter__()


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (OSError(28, "No space left on device"), (UserError, r"a.journal: cannot be written \(No space left")),
        (BrokenPipeError(32, "Broken pipe"), (BrokenPipeError, "Broken pipe")),
        (PermissionError(13, "Permission denied", "prompt.txt"), (PermissionError, "prompt.txt")),
    ],
)
def test_an_error_of_the_operating_system_is_blamed_on_its_own_file(tmp_path, error, shown):
    with pytest.raises(shown[0], match=shown[1]), _journal(tmp_path / "a.journal"):
        raise error


def test_only_rows_added_to_the_input_are_converted_and_a_moved_file_is_the_same(prose, run, kept, tmp_path):
    run(prose, limit=2)
    seen = []
    run(prose, told=lambda progress: seen.append(progress.done))
    assert seen == [2, 3, 4, 5]
    more = {"question": "2 and 2?", "answer": "2 + 2 = 4\n#### 4"}
    moved = write(tmp_path / "moved.jsonl", [*PROSE, more])
    seen.clear()
    run(moved, told=lambda progress: seen.append(progress.done))
    assert seen == [5, 6] and kept()[-1] == {"problem": "2 and 2?", "solution": "<<2+2=4>>", "answer": "4"}


def test_another_input_or_fewer_rows_are_refused_and_nothing_is_lost(prose, whole, ruplar, kept, tmp_path):
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    command = ("data", "convert", prose, tmp_path / "out.jsonl", "--limit", "2")
    refused = ruplar(*command)
    assert refused.code == 2 and "belongs to another input or other settings: 3 of its 5 rows" in refused.err
    assert "choose another OUTPUT, or start over with --force" in refused.err
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert ruplar(*command, "--force").code == 0 and len(kept()) == 2
