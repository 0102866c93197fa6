"""The commands as a user runs them: what they print, what they write, and how mistakes are reported."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from pydantic import Field
from said import Said
from typer.testing import CliRunner

from ruplar.cli import app
from ruplar.cli.options import _option
from ruplar.evaluate.record import read_record, read_samples
from ruplar.model.store import find_model

QUESTION = "Tom has 3 bags of 4 apples. He eats 2 apples. How many apples are left?"
MISTAKES = """
name: mine
data: {train: {source: word-problems, count: 10, seed: 1}}
prior: {name: mixtur}
method: {name: ruplar, max_latent: 3}
training: {learning_rate: fast}
"""


def apart(*words: str | Path) -> tuple[Said, bool]:
    """Words → the command run in a process of its own, and whether it imported torch or transformers."""
    code = (
        "import atexit, sys; from ruplar.cli import main\n"
        "atexit.register(lambda: print(bool({'torch', 'transformers'} & set(sys.modules)), file=sys.stderr)); main()"
    )
    done = subprocess.run([sys.executable, "-c", code, *map(str, words)], capture_output=True, text=True)
    *rest, torch = done.stderr.splitlines()
    return Said(done.returncode, done.stdout, "\n".join(rest)), torch == "True"


def shares(said: Said) -> dict[str, float]:
    [step] = said.json["steps"]
    [span] = step["spans"]
    return {token["token"]: token["prob"] for token in span["tokens"]}


def test_an_option_has_both_bounds_of_its_setting():
    option = _option("max_n", Field(4, ge=1, le=9)).default
    assert (option.min, option.max) == (1, 9)


WORKED = ("preview", "--json", "--prior", "mixture", "--set", "prior.semantics=paper", "<<20*1.20=24>>")
# 0.8 on the result; 0.2 over the five other tokens, the repeated 20 counted once, is 0.04 each
WORKED_SHARES = {"24": 0.8, "20": 0.04, "*": 0.04, "1": 0.04, ".": 0.04, "=": 0.04}


def test_preview_shows_the_worked_example_with_the_packaged_tokenizer(ruplar):
    said = ruplar(*WORKED)
    assert said.code == 0 and shares(said) == WORKED_SHARES


def test_preview_reads_a_setting_and_a_file(ruplar, tmp_path):
    said = ruplar("preview", "<<3+4=7>>", "--json", "--set", "prior.operand_share=0.4")
    assert shares(said) == {"7": 0.6, "3": 0.1, "+": 0.1, "4": 0.1, "=": 0.1}
    assert ruplar("data", "make", tmp_path / "some.jsonl", "--count", 4).code == 0
    assert len(ruplar("preview", tmp_path / "some.jsonl", "--json", "--limit", "3").json) == 3


def test_three_mistakes_in_a_recipe_are_told_at_once_before_torch_is_imported(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text(MISTAKES, encoding="utf-8")
    said, torch = apart("train", file)
    assert said.code == 2 and said.out == "" and "Traceback" not in said.err
    assert said.err.startswith(f"ruplar: 3 problems in {file}")
    for problem in (
        "prior.name: unknown prior 'mixtur'. Did you mean 'mixture'?",
        "unknown setting of method ruplar 'max_latent'. Did you mean 'max_latents'?",
        "training.learning_rate: must be a number, got 'fast'.",
    ):
        assert problem in said.err
    assert not torch, "a module imported at start imports torch; import it inside a function"


def test_a_recipe_for_a_gpu_says_so_on_a_cpu_before_anything_is_loaded(ruplar, tmp_path):
    (tmp_path / "metrics.jsonl").write_text("{}\n")  # the folder of another run, which training refuses to write to
    said = ruplar("train", "embedded-ruplar", "--output", tmp_path, "--device", "cpu")
    assert said.code == 2 and "embedded-ruplar is meant for a GPU" in " ".join(said.out.split())
    assert "ruplar train embedded-live" in said.out


def test_list_is_one_page_of_names_without_torch():
    from ruplar import plugins
    from ruplar.config import recipes

    said, torch = apart("list")
    assert said.code == 0 and not torch
    assert len(said.out.splitlines()) < 120 and max(map(len, said.out.splitlines())) <= 80
    for kind in plugins.CLASSES:
        assert f"{kind} ({len(plugins.names(kind))})" in said.out
    names = {name for kind in plugins.CLASSES for name in plugins.names(kind)} | {*recipes(), "potion_shop"}
    assert names <= set(said.out.split())


def test_list_describes_one_kind_and_names_the_closest_to_an_unknown_one(ruplar, refused):
    from ruplar import plugins

    said = ruplar("list", "priors")
    assert all(plugins.describe("priors", name) in said.words for name in plugins.names("priors"))
    assert "arithmetic" not in said.out
    assert "unknown kind 'prior'. Did you mean 'priors'?" in refused("list", "prior")


@pytest.mark.slow
def test_version_and_help_need_no_torch():
    from ruplar import __version__

    said, torch = apart("--version")
    assert said.out.strip() == f"ruplar {__version__}" and not torch
    said, torch = apart("--help")
    assert said.code == 0 and "evaluate" in said.out and not torch


@pytest.mark.slow
def test_evaluate_leaves_a_record_and_every_sample(ruplar, tmp_path):

    run = ("evaluate", "embedded:ruplar", "--device", "cpu", "--limit", "6", "--output", tmp_path / "run")
    said = ruplar(*run, "--on", "word-problems", "--json")
    [found] = said.json
    assert (found["name"], found["n"], found["limit"]) == ("word-problems", 6, 6)
    assert found["low"] < found["accuracy"] <= found["high"] <= 100
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert "only part of word-problems was evaluated" in record["partial"]
    first = read_samples(tmp_path / "run")
    assert len(first) == 6 and sum(row["correct"] for row in first) == found["correct"]

    # a second set into the same folder keeps the first one's samples and result
    said = ruplar(*run, "--on", "word-problems:bakery")
    assert said.code == 0 and "partial: " in said.out and "word-problems  " not in said.out
    rows = read_samples(tmp_path / "run")
    assert [row for row in rows if row["benchmark"] == "word-problems"] == first and len(rows) == 12
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert [b["name"] for b in record["benchmarks"]] == ["word-problems", "word-problems:bakery"]
    assert any("word-problems, word-problems:bakery" in reason for reason in record["partial"])

    # the same set again replaces its own
    assert ruplar(*run, "--on", "word-problems:bakery").code == 0
    assert len(read_samples(tmp_path / "run")) == 12


@pytest.mark.slow
def test_evaluate_times_questions_at_batch_size_1_on_request(ruplar, tmp_path):
    run = ("evaluate", "embedded:no_cot", "--device", "cpu", "--limit", "3", "--output", "run", "--on")
    assert "(batch 1)" not in ruplar(*run, "word-problems").words
    said = ruplar(*run, "word-problems:bakery", "--batch1", "2").words
    first, second = read_record(tmp_path / "run").benchmarks
    assert first.ms_batch1 is None and second.ms_batch1 > 0 and "(batch" in said
    assert f"{second.ms_batch1:.1f}" in said


def test_evaluate_names_models_sets_and_files_it_cannot_find_or_read(refused, tmp_path):
    on = ("--on", "word-problems")
    assert "unknown embedded model 'ruplr'. Did you mean 'ruplar'?" in refused("evaluate", "embedded:ruplr", *on)
    assert "runs/none: no such model folder" in refused("evaluate", "runs/none", *on)
    model = ("evaluate", "embedded:ruplar", "--device", "cpu", "--on")
    assert "unknown family 'bakry'. Did you mean 'bakery'" in refused(*model, "word-problems:bakry")
    assert "unknown dataset 'svam'. Did you mean 'svamp'?" in refused(*model, "svam")
    assert "nothere.jsonl: no such file" in refused(*model, "nothere.jsonl")
    (tmp_path / "odd.jsonl").write_bytes(b"\xff\xfe not text\n")
    assert "odd.jsonl" in refused(*model, "odd.jsonl")
    (tmp_path / "broken.jsonl").write_text('{"question": "3+4?", "answer": "7"}\n{"question": \n', encoding="utf-8")
    message = refused(*model, "broken.jsonl")
    assert "broken.jsonl" in message and "2" in message
    assert "--seeds: cannot read 'a'" in refused(*model, "word-problems", "--seeds", "a")
    assert not (tmp_path / "runs").exists()


@pytest.mark.slow
def test_a_soup_is_written_once_and_its_record_names_its_trainings(ruplar, refused, tmp_path):
    for seed in (4, 5):
        shutil.copytree(find_model("embedded:ruplar"), tmp_path / f"run{seed}" / "model")
        (tmp_path / f"run{seed}" / "trained.json").write_text(json.dumps({"seed": seed}), encoding="utf-8")
    assert "the average of 2 models" in ruplar("average", "mean", "run4", "run5").words
    assert "mean exists. Choose another folder." in refused("average", "mean", "run4", "run5")
    for model, seeds in {"mean": [4, 5], "run4": []}.items():
        folder, on = tmp_path / f"asked-{model}", ("--on", "word-problems", "--limit", "2", "--device", "cpu")
        assert ruplar("evaluate", model, *on, "--output", folder).code == 0
        assert read_record(folder).mean_of == seeds


def test_export_writes_the_bare_adapter_and_never_over_something(ruplar, refused, tmp_path):
    assert ruplar("export", "embedded:ruplar", "bare", "--no-merge", "--dtype", "bfloat16").code == 0
    assert {f.name for f in (tmp_path / "bare").iterdir()} == {
        "ruplar.json", "adapter_config.json", "adapter_model.safetensors",
    }  # fmt: skip
    assert ruplar("ask", "bare", QUESTION, "--json", "--device", "cpu").json["latent_count"] > 0
    assert "bare exists and is not empty" in refused("export", "embedded:ruplar", "bare")


@pytest.mark.slow
def test_ablate_reports_every_mode_against_the_real_latents(ruplar, refused):
    found = ruplar("ablate", "embedded:ruplar", "--limit", "8", "--device", "cpu", "--json").json
    rows = {row["mode"]: row for row in found["word-problems"]}
    assert list(rows) == ["real", "none", "random", "shuffled", "zero", "argmax"]
    assert rows["real"]["difference"] is None and rows["none"]["latents"] == 0
    for mode in ("none", "random", "shuffled", "zero"):
        assert rows[mode]["difference"] == pytest.approx(rows[mode]["accuracy"] - rows["real"]["accuracy"])
    assert rows["random"]["latents"] == rows["real"]["latents"] > 1
    assert "no latents" in refused("ablate", "embedded:cot", "--device", "cpu")


@pytest.mark.slow
def test_report_tables_the_runs_of_a_folder_and_leaves_partial_ones_out(ruplar, refused, tmp_path):
    (tmp_path / "ten.jsonl").write_text(
        "".join(json.dumps({"question": f"What is {n}+1?", "answer": str(n + 1)}) + "\n" for n in range(10)),
        encoding="utf-8",
    )
    for name, more in (("whole", ()), ("part", ("--limit", "5"))):
        words = ("evaluate", "embedded:no_cot", "--on", "ten.jsonl", "--device", "cpu", "--output", f"runs/{name}")
        assert ruplar(*words, *more).code == 0
    [row] = ruplar("report", "runs", "--json").json
    assert row["method"] == "no_cot" and row["benchmark"] == "ten.jsonl" and row["n"] == 10
    table = ruplar("report", "runs").out
    assert "no_cot" in table and "|" in table
    assert "nowhere" in refused("report", "nowhere")


def test_places_that_cannot_be_written_to_are_told_before_any_work(refused, tmp_path):
    (tmp_path / "file").write_text("")
    run = ("evaluate", "embedded:ruplar", "--on", "word-problems", "--limit", "2", "--device", "cpu")
    assert "file is a file. Choose a folder." in refused(*run, "--output", "file")
    assert "file is a file. Choose a folder." in refused("export", "embedded:ruplar", "file")
    assert "is a file. Choose a folder." in refused("train", "embedded-live", "--output", "file", "--device", "cpu")
    assert "its folder does not exist" in refused("data", "make", "none/a.jsonl")
    assert "is a folder" in refused("data", "make", tmp_path)


@pytest.mark.slow
def test_one_models_scores_are_never_filed_under_anothers_name(ruplar, refused):
    options = ("--on", "word-problems", "--limit", "3", "--output", "ev", "--device", "cpu")
    assert ruplar("evaluate", "embedded:ruplar", *options).code == 0
    assert "has results of 'ruplar', another model: method.name" in refused("evaluate", "embedded:no_cot", *options)


def test_two_benchmarks_of_one_name_are_refused(refused, tmp_path):
    (tmp_path / "s.jsonl").write_text('{"question": "1+1?", "answer": "2"}\n')
    words = ("evaluate", "embedded:no_cot", "--on", "s.jsonl,s.jsonl", "--output", "o")
    assert "two benchmarks have the name s.jsonl" in refused(*words)


SMALL = ("training.max_steps=2", "training.warmup_steps=0", "data.train.0.count=20", "data.train.1.count=20")


@pytest.mark.slow
def test_a_finished_run_without_checkpoints_is_not_trained_again(ruplar):
    command = ("train", "embedded-live", *SMALL, "--output", "r", "--device", "cpu")
    assert ruplar(*command).code == 0
    again = ruplar(*command, "--resume")
    assert again.code == 2 and "this run is finished" in again.err and "backbone.init=r" in again.err


def test_every_limit_of_the_server_is_an_option(ruplar):
    from ruplar.serve.schemas import Limits

    listed = ruplar("serve", "--help").out
    assert [name for name in Limits.model_fields if f"--{name.replace('_', '-')} " not in listed] == []


@pytest.mark.parametrize(
    ("typed", "start", "found"),
    [([], "tr", ["train"]), (["train"], "--de", ["--device"]), (["train"], "embedded-l", ["embedded-live"])],
)
def test_a_shell_completes_commands_options_and_names(typed, start, found):
    words = " ".join(["ruplar", *typed, start])
    variables = {"_RUPLAR_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(len(typed) + 1)}
    said = CliRunner().invoke(app, env=variables, prog_name="ruplar")
    assert said.stdout.split() == found


def test_problems_that_were_made_pass_their_own_check(ruplar, tmp_path):
    said = ruplar("data", "make", tmp_path / "some.jsonl", "--count", "50", "--seed", "3", "--steps", "2,4")
    assert said.code == 0 and "50 problems" in said.out
    found = ruplar("data", "check", tmp_path / "some.jsonl", "--json").json
    assert found["rows"] == found["examples"] == 50 and set(found["steps"]) <= {"2", "3", "4"}
    assert found["wrong_steps"] == found["wrong_ends"] == found["no_result"] == [] and found["left_out"] == {}


def test_names_of_files_are_printed_as_they_are(ruplar, tmp_path):
    file = tmp_path / f"{'long' * 20} [b] :smile:.jsonl"
    assert ruplar("data", "make", file, "--count", "3").out == f"3 problems in {file}\n"
    checked = ruplar("train", "embedded-live", f"data.train=['{file}']", "--check").out
    assert yaml.safe_load(checked)["data"]["train"][0]["source"] == str(file)
    said = ruplar("evaluate", "embedded", "--on", file, "--output", tmp_path / "[/b]", "--device", "cpu")
    assert f"{file.name}: 100.0 %" in said.err and f"record   {tmp_path}/[/b]/run.json\n" in said.out
