import json
import subprocess
from pathlib import Path

import pytest

from ruplar.errors import UserError
from ruplar.evaluate.record import (
    BenchmarkResult,
    Machine,
    RunRecord,
    commit_of,
    differences,
    machine,
    read_record,
    versions,
    write_record,
)
from ruplar.fingerprints import fingerprint


def result(**changes):
    fields = dict(name="svamp", n=263, correct=81, latents=2.0, answer_tokens=4, forwards=7, ms_per_question=1.5)
    return BenchmarkResult(**{**fields, **changes})


def record(**changes):
    fields = dict(name="ruplar", config={"seed": 1}, seed=1, commit="abc", dirty=False, versions={"python": "3.11"})
    fields |= dict(machine=Machine(cpu="x", cores=2, memory_gb=8), started="2026-01-01T00:00:00+00:00")
    return RunRecord(**{**fields, "benchmarks": [result()], **changes})


def test_a_result_that_cannot_be_is_refused():
    with pytest.raises(ValueError, match="260 right and 4 unreadable of 263"):
        result(correct=260, unreadable=4)


def test_a_record_comes_back_as_it_was_written(tmp_path):
    written = record(study="main", left_out={"no step": 3}, data={"a.jsonl": "0f"}, peak_gb=1.5)
    path = write_record(written, tmp_path / "runs" / "x")
    assert read_record(path) == read_record(path.parent) == written
    shown = json.loads(path.read_text())
    assert shown["partial"] == []
    assert shown["benchmarks"][0]["accuracy"] == pytest.approx(30.798, abs=1e-3)
    assert [f.name for f in path.parent.iterdir()] == ["run.json"]  # nothing half-written is left beside it


def test_a_limit_a_crash_or_changed_code_makes_a_record_partial():
    assert record().partial == []
    assert record(dirty=None, commit=None).partial == []
    partial = record(benchmarks=[result(limit=10)], dirty=True, finished=False)
    assert len(partial.partial) == 3
    evaluated = record(benchmarks=[result(commit="def", dirty=True)])
    assert evaluated.partial == ["the code had uncommitted changes"]
    assert evaluated.with_benchmark(result()).partial == [], "evaluated again with committed code"


def test_a_benchmark_asked_again_replaces_its_earlier_result():
    twice = record().with_benchmark(result(correct=90)).with_benchmark(result(name="gsm8k"))
    assert [(b.name, b.correct) for b in twice.benchmarks] == [("svamp", 90), ("gsm8k", 81)]


def test_configs_are_compared_without_seed_name_and_speed():
    first = {"seed": 1, "name": "a", "speed": {"pack": 1}, "method": {"name": "ruplar", "k": 1}}
    assert differences(first, {**first, "seed": 2, "name": "b", "speed": {"pack": 2}}) == []
    assert differences(first, {**first, "method": {"name": "ruplar", "k": 2}}) == ["method.k"]


def test_the_latency_of_older_records_is_read_under_its_new_name():
    old = {**json.loads(result().model_dump_json()), "ms_alone": 4.0}
    del old["ms_batch1"]
    assert BenchmarkResult.model_validate(old).ms_batch1 == 4.0


def test_a_missing_or_cut_record_is_named(tmp_path):
    with pytest.raises(UserError, match="no .*run.json"):
        read_record(tmp_path)
    (tmp_path / "run.json").write_text('{"name": "x"')
    with pytest.raises(UserError, match="run.json"):
        read_record(tmp_path)


def test_the_commit_is_that_of_tracked_code_only(tmp_path):
    def git(*arguments):
        name = ["-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run(["git", "-C", str(tmp_path), *name, *arguments], check=True, capture_output=True)

    assert commit_of(tmp_path) == (None, None)
    git("init")
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "a.py").write_text("a = 1\n")
    assert commit_of(tmp_path / "code") == (None, None)  # it lies in a repository that does not hold it
    git("add", ".")
    git("commit", "-m", "a")
    commit, dirty = commit_of(tmp_path / "code")
    assert (len(commit), dirty) == (40, False)
    (tmp_path / "notes").write_text("not code")
    assert commit_of(tmp_path / "code")[1] is False
    (tmp_path / "code" / "a.py").write_text("a = 2\n")
    assert commit_of(tmp_path / "code") == (commit, True)


def test_versions_machine_and_fingerprints_say_what_is_there(tmp_path):
    assert {"python", "torch", "transformers", "peft", "ruplar"} == set(versions())
    assert machine(gpu="H200").gpu == "H200"
    assert machine().cores >= 1
    (tmp_path / "x").write_bytes(b"abc")
    assert fingerprint(tmp_path / "x").startswith("ba7816bf")  # the standard's own example


def test_a_record_older_than_a_setting_says_what_it_was_made_under(tmp_path):
    folder = Path(__file__).parents[2] / "results" / "smollm2-baselines" / "RuPLaR-Mix-seed1"
    raw = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    assert "block" not in raw["config"]["method"] and "question_repeats" not in raw["config"]["prompt"]
    assert "canonical_operands" not in raw["config"]["data"]
    config = read_record(folder).config
    assert config["prompt"]["question_repeats"] == 1
    assert config["data"]["canonical_operands"] is False
    assert "block" not in read_record(folder.with_name("CoT-SFT-seed1")).config["method"], "it is ruplar's alone"
    raw["config"]["method"] = {"name": "ruplar", "settings": {"block": 6}}  # as a model's metadata has it
    (tmp_path / "run.json").write_text(json.dumps(raw), encoding="utf-8")
    assert read_record(tmp_path).config["method"] == raw["config"]["method"]
    raw["config"]["method"]["block"] = 6
    (tmp_path / "run.json").write_text(json.dumps(raw), encoding="utf-8")
    assert read_record(tmp_path).config["method"]["block"] == 6
