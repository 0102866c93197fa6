"""Test sets are asked once, of rows that were committed before; what departs from that is marked."""

import json
import subprocess
from dataclasses import replace

import pytest
import yaml
from cases import cases
from tiny import FINISHED, TINY

from ruplar.data.locations import KNOWN_SETS
from ruplar.errors import UserError
from ruplar.evaluate.record import read_record, read_samples
from ruplar.experiments.study import load_study
from ruplar.fingerprints import fingerprint_answers
from ruplar.types import Example

STUDY = {
    "name": "tiny",
    "seeds": [1],
    "on": ["valid", {"source": "word-problems", "count": 4}],
    "test": [{"source": "word-problems:short", "count": 3}, {"source": "word-problems:bakery", "count": 2}],
    "rows": FINISHED["rows"],
    "set": TINY,
}
"""The study `FINISHED`, whose records have a result on word-problems:short already, and none on word-problems:bakery."""


@pytest.fixture
def folder(tmp_path, finished, ruplar):
    """A git repository with tiny.yaml, made the working folder, and the finished cells of that study."""
    finished("tiny")
    git("init", "-q")
    commit(tmp_path, STUDY)
    return tmp_path


def git(*words):
    return subprocess.run(["git", *words], check=True, capture_output=True, text=True).stdout.strip()


def write(folder, entries):
    (folder / "tiny.yaml").write_text(yaml.safe_dump(entries, sort_keys=False))


def commit(folder, entries):
    """Commit tiny.yaml and return the commit."""
    write(folder, entries)
    git("add", "tiny.yaml")
    git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "rows")
    return git("rev-parse", "HEAD")


@pytest.fixture
def final(ruplar):
    """Options of `ruplar study tiny.yaml --final` → exit status, standard output and error."""

    def run(*words):
        said = ruplar("study", "tiny.yaml", "--device", "cpu", "--final", *words)
        return said.code, said.out, said.err.replace("\n", " ")

    return run


def results(folder, cell):
    return {result.name: result for result in read_record(folder / "results" / "tiny" / cell).benchmarks}


def test_test_sets_are_asked_once_with_the_commit_of_the_rows(folder, final):
    frozen = git("rev-parse", "HEAD")
    (folder / "other.txt").write_text("a later commit that leaves the rows alone")
    git("add", "other.txt")
    git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "other")
    code, out, _ = final()
    assert code == 0 and "3 of 3 cells are done" in out
    for cell in ("No-CoT-seed1", "Mix-seed1", "Short-seed1"):
        found = results(folder, cell)
        new, old = found["word-problems:bakery"], found["word-problems:short"]
        assert (new.frozen_at, new.n, new.evaluated_again, new.added_later) == (frozen, 2, 0, False)
        assert new.evaluated_at and (old.frozen_at, old.evaluated_at) == ("", ""), "what was on record is kept"
        asked = [row["benchmark"] for row in read_samples(folder / "results" / "tiny" / cell)]
        assert [asked.count(name) for name in found] == [result.n for result in found.values()]
    about = json.loads((folder / "results" / "tiny" / "study.json").read_text())
    assert about["frozen"]["at"] == frozen and about["frozen"]["rows"] == list(STUDY["rows"])
    before = {cell: results(folder, cell) for cell in ("No-CoT-seed1", "Mix-seed1")}
    code, out, _ = final()
    assert code == 0 and "started" not in out
    assert before == {cell: results(folder, cell) for cell in before}, "nothing is asked a second time"


def test_a_row_that_is_evaluated_again_says_how_often(folder, final):
    for times in (1, 2):
        assert final("--only", "No-CoT", "--again", "No-CoT")[0] == 0
        found = results(folder, "No-CoT-seed1")
        assert found["word-problems:bakery"].evaluated_again == times - 1
        assert found["word-problems:short"].evaluated_again == times, "evaluated before the protocol, then again"
    assert "word-problems:bakery" not in results(folder, "Mix-seed1")
    code, _, err = final("--again", "Max")
    assert code == 2 and "--again: unknown row 'Max'" in err


def test_a_row_that_is_added_after_the_first_test_set_was_asked_is_marked(folder, final):
    first = {label: row for label, row in STUDY["rows"].items() if label != "No-CoT"}
    old = commit(folder, {**STUDY, "rows": first})
    assert final()[0] == 0
    new = commit(folder, STUDY)
    assert final()[0] == 0
    added, there = (results(folder, cell)["word-problems:bakery"] for cell in ("No-CoT-seed1", "Mix-seed1"))
    assert (added.added_later, added.frozen_at) == (True, new)
    assert (there.added_later, there.frozen_at) == (False, old)


def test_rows_that_are_not_committed_are_refused(folder, final):
    write(folder, {**STUDY, "about": "changed"})
    code, _, err = final()
    assert code == 2 and "tiny.yaml: has uncommitted changes. Commit the study file and its recipes first." in err
    git("rm", "-q", "--cached", "tiny.yaml")
    code, _, err = final()
    assert code == 2 and "git does not track it. Commit the study file and its recipes first." in err
    assert "word-problems:bakery" not in results(folder, "Mix-seed1")
    assert final("--frozen-at", "0a1b2c")[0] == 0
    assert results(folder, "Mix-seed1")["word-problems:bakery"].frozen_at == "0a1b2c"


@pytest.mark.parametrize(("entries", "name", "text"), cases(__file__, "beside"))
def test_bases_and_recipes_beside_the_study_are_part_of_the_committed_rows(folder, final, entries, name, text):
    (folder / name).write_text(text)
    commit(folder, {**STUDY, **entries})
    code, _, err = final()
    assert code == 2 and f"{name}: git does not track it" in err


def test_changed_code_evaluates_no_test_set(folder, final, monkeypatch):
    monkeypatch.setattr("ruplar.experiments.protocol.commit_of", lambda: ("abc", True))
    code, _, err = final()
    assert code == 2 and "--final: the code of ruplar has uncommitted changes" in err


def test_the_frozen_rows_are_on_record_before_the_first_result(folder, final, monkeypatch):
    monkeypatch.setattr("ruplar.experiments.protocol.write_record", lambda record, folder: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        final()
    about = json.loads((folder / "results" / "tiny" / "study.json").read_text())
    assert about["frozen"]["rows"] == list(STUDY["rows"])


def test_a_known_set_that_is_named_by_its_path_is_evaluated_once(folder, final, ruplar, monkeypatch):
    asked = [Example(f"What is {n}+1?", (), str(n + 1)) for n in range(3)]
    lines = [json.dumps({"question": one.question, "answer": one.answer}) + "\n" for one in asked]
    (folder / "asked.jsonl").write_text("".join(lines))
    known = replace(KNOWN_SETS["svamp"], rows=3, fingerprint=fingerprint_answers(asked)[1])
    monkeypatch.setitem(KNOWN_SETS, "svamp", known)
    commit(folder, {**STUDY, "test": ["asked.jsonl"]})
    for _ in range(2):
        assert final("--only", "No-CoT")[0] == 0
        assert results(folder, "No-CoT-seed1")["asked.jsonl"].evaluated_again == 0
    commit(folder, {**STUDY, "on": ["valid", "asked.jsonl"]})
    said = ruplar("study", "tiny.yaml", "--device", "cpu").err.replace("\n", " ")
    assert "on: 'asked.jsonl' has the content of 'svamp', a test set; list it under test:" in said
    commit(folder, {**STUDY, "test": ["svamp"]})
    (folder / "data").mkdir()
    (folder / "data" / "svamp-test.jsonl").write_text(lines[0])
    assert "data/svamp-test.jsonl: is not the content of 'svamp'" in final("--only", "No-CoT")[1]


@pytest.mark.parametrize("word", [("training.max_steps=3",), ("--seeds", "1"), ("--jobs", "2")])
def test_what_contradicts_the_committed_rows_is_refused(folder, final, word):
    code, _, err = final(*word)
    assert code == 2 and "evaluates the rows and seeds of the committed study file" in err
    code, _, err = final("--frozen-at", "0a1b2c")
    assert code == 2 and "so its own commit is recorded" in err


def test_a_cell_that_is_not_finished_is_left(folder, final):
    (folder / "results" / "tiny" / "No-CoT-seed1" / "run.json").unlink()
    code, out, _ = final()
    assert code == 3 and "left     No-CoT-seed1" in out
    assert results(folder, "Mix-seed1")["word-problems:bakery"].frozen_at


def test_a_cell_whose_model_is_gone_fails_and_keeps_its_record(folder, final):
    (folder / "runs" / "tiny" / "No-CoT-seed1" / "trained.json").unlink()
    code, out, _ = final()
    assert code == 1 and "failed   No-CoT-seed1: the model of its record is not in" in out


def test_a_further_selection_set_leaves_the_test_results_alone(folder, final):
    from tiny import run, tiny_study

    from ruplar.experiments.storage import Places

    assert final()[0] == 0
    places = Places(folder / "results" / "tiny", folder / "runs" / "tiny")
    more = {**STUDY, "on": [*STUDY["on"], {"source": "word-problems:held-out", "count": 2}]}
    before = results(folder, "No-CoT-seed1")
    outcome, _ = run(tiny_study(**more), places, only=["No-CoT"])
    found = results(folder, "No-CoT-seed1")
    assert not outcome.failed and set(found) - set(before) == {
        name for name in found if name.startswith("word-problems:") and name not in before
    }
    assert all(found[name] == before[name] for name in ("word-problems:bakery", "word-problems:short"))
    (places.work / "Mix-seed1" / "trained.json").unlink()
    outcome, _ = run(tiny_study(**more), places, only=["Mix"])
    assert "their model is not in" in outcome.failed["Mix-seed1"]


@pytest.mark.parametrize(("entries", "said"), cases(__file__, "roles"))
def test_a_set_is_listed_where_its_role_puts_it(tmp_path, entries, said):
    write(tmp_path, {**STUDY, **entries})
    with pytest.raises(UserError) as error:
        load_study(str(tmp_path / "tiny.yaml"))
    assert said in str(error.value)
