"""Records and a model's own card → a model card that the Hub reads, that says whose scores it shows, and names no path."""

import json
import re
import shutil
from pathlib import Path

import pytest
import yaml

from ruplar.config import from_dict
from ruplar.errors import UserError
from ruplar.evaluate.record import read_record, write_record
from ruplar.evaluate.stats import wilson
from ruplar.model.store import ModelMetadata, PluginSpec
from ruplar.report.card import Written, build_card
from ruplar.report.front_matter import front_matter, hub_model, hub_set
from ruplar.report.model_records import differing, find_model_records
from ruplar.report.rows import collect, of_section

RESULTS = Path(__file__).parents[2] / "results"
MAIN, DATES, EMBEDDED = RESULTS / "main", RESULTS / "dates", RESULTS / "embedded"


def card_of(folder: Path, **changes) -> ModelMetadata:
    """What the model of a run says of itself: the run's own settings."""
    config = {**read_record(folder).config, **changes}

    def named(raw):
        name, settings = of_section(raw)
        return PluginSpec(name=name, settings=settings)

    plugins = {key: named(config[key]) for key in ("method", "spans", "prior")}
    domain = named(config["data"]["domain"])
    return ModelMetadata(backbone=config["backbone"], prompt=config["prompt"], domain=domain, **plugins)


def made(folder: Path, paths=None, adapter=True, **options) -> str:
    card = card_of(folder)
    subject = find_model_records(card, folder, paths or [folder])
    return build_card(Written("toy", card, adapter, 5_000_000, 3.6), subject, **options)


def has_line(text: str, start: str) -> bool:
    """Whether a line begins so; `[]` stands for any interval."""
    interval = r"\[[−+]?\d+\.\d, [−+]?\d+\.\d\]"
    return re.search("^" + re.escape(start).replace(r"\[\]", interval), text, re.M) is not None


def signed(points: float) -> str:
    return f"{points:+.1f}".replace("-", "−")


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
    # of this very run, and not on `valid`, by which settings were chosen
    asked = {one.name: one for one in read_record(MAIN / "RuPLaR-plus-seed1").benchmarks}
    assert asked.pop("valid").n == 500
    scores = {one.dataset_name: (one.metric_type, one.metric_value) for one in found.eval_results}
    assert scores == {name: ("accuracy", round(100 * one.correct / one.n, 2)) for name, one in asked.items()}
    assert set(scores) == {"word-problems", "word-problems:held-out"}
    assert {one.task_type for one in found.eval_results} == {"text-generation"}
    [first, _] = front(text)["model-index"][0]["results"]
    low, high = (round(100 * share, 2) for share in wilson(asked["word-problems"].correct, 1000))
    assert first["metrics"][0]["args"] == {"questions": 1000, "low": low, "high": high, "decoding": "greedy"}


def test_merged_weights_are_for_transformers_and_a_licence_is_not_made_up():
    text = made(MAIN / "RuPLaR-plus-seed1", adapter=False)
    assert front(text)["library_name"] == "transformers" and "license" not in front(text)
    assert "No licence is named for these weights" in text and "AutoModelForCausalLM" in text


def test_hub_names_are_told_where_they_are_known():
    record = read_record(MAIN / "RuPLaR-plus-seed1")
    sources = ("gsm8k-train", "gsm8k-aug-train", "drills", "hub:me/mine/main:train", "gsm8k-train")
    data = {**record.config["data"], "train": [{"source": source} for source in sources]}
    results = [record.benchmarks[1].model_copy(update={"name": name}) for name in ("svamp", "gsm8k-dev", "valid")]
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
    folder = DATES / "RuPLaR-plus-seed2"
    text = made(folder, [DATES])
    order = "What it is, How to use it, How it was trained, Scores, Latent ablation, Limits, Licence"
    assert re.findall(r"^## (.+)$", text, re.M) == order.split(", ")
    record = read_record(folder)
    assert record.commit and record.machine.gpu and len(record.data) == 5
    about = (record.commit, record.machine.gpu, f"torch {record.versions['torch']}", *record.data.values())
    for said in (*about, f"| {record.train_seconds:,.0f} seconds |", "2 (the scores pool 1, 3 too)"):
        assert said in text
    assert f"at most {record.config['method']['max_latents']} latents" in text and "greedy" in text
    unreadable = [one for one in record.benchmarks if one.unreadable]
    assert unreadable and all(f"{one.unreadable} of {one.n:,} on {one.name}" in text for one in unreadable)
    start = Path(record.config["backbone"]["init"]).name
    assert f"the weights of `{start}`, which are not in this folder" in text


@pytest.mark.slow
def test_the_scores_of_the_card_are_these_weights_alone_then_all_seeds_beside_the_others():
    text = made(DATES / "RuPLaR-plus-seed2", [DATES])

    def asked(label, seed):
        record = read_record(DATES / f"{label}-seed{seed}")
        return next(one for one in record.benchmarks if one.name == "date-problems")

    # 1,000 questions: a tenth of the right ones is percent, and so is a thirtieth of those of three seeds
    alone = asked("RuPLaR-plus", 2)
    score = f"{alone.correct / 10:.1f} []"
    assert has_line(text, f"| date-problems | 1,000 | {score} | {alone.latents:.2f} | {alone.unreadable} |")
    labels = ("RuPLaR-plus", "No-CoT", "CoT-SFT")
    pooled = {label: sum(asked(label, seed).correct for seed in (1, 2, 3)) / 30 for label in labels}
    rows = {row.method: row for row in collect([DATES]) if row.benchmark == "date-problems"}
    for label, shown in (("RuPLaR-plus", "**RuPLaR-plus**"), ("No-CoT", "No-CoT")):
        score = f"{pooled[label]:.1f} [{rows[label].low:.1f}, {rows[label].high:.1f}]"
        assert has_line(text, f"| {shown} | date-problems | 1,000 | 3 | {score} |")
    gap = signed(pooled["CoT-SFT"] - pooled["RuPLaR-plus"])
    assert has_line(text, f"| CoT-SFT | RuPLaR-plus | date-problems | 1,000 | {gap} [] |")


def test_the_card_tells_what_other_latents_are_worth():
    text = made(DATES / "RuPLaR-plus-seed2", [DATES])
    assert "**date-problems, these weights**" in text and "no latent, `</think>` at once" in text
    ablated = json.loads((DATES / "RuPLaR-plus-seed2" / "ablation.json").read_text(encoding="utf-8"))
    worth = {one["mode"]: one["correct"] / 5 for one in ablated["rows"]}  # of 500 questions, in percent
    for mode, what in (("shuffled", "another question's latents"), ("zero", "zero vectors")):
        gap = signed(worth[mode] - worth["real"])
        assert has_line(text, f"| {mode} | {what} | 500 | {worth[mode]:.1f} [] | {gap} [] |")


def test_the_recipe_of_the_card_is_the_runs_own():
    text = made(MAIN / "RuPLaR-plus-seed1")
    shown = yaml.safe_load(re.search(r"```yaml\n(.*?)```", text, re.S)[1])
    record = read_record(MAIN / "RuPLaR-plus-seed1")
    assert from_dict(shown) == from_dict(record.config)


def test_the_card_of_a_mean_names_its_trainings_and_how_to_make_it_again():
    text = made(RESULTS / "smollm2" / "RuPLaR-plus_soup_of_3_seeds-seed1")
    assert "| seeds | 1, 2, 3: a model soup of 3 seeds |" in text
    assert "`ruplar train recipe.yaml` with seed=1, seed=2, seed=3 trains the members of the soup" in text
    assert "- Only one soup is on record: the intervals cover the questions, not the variance of training." in text
    single = made(RESULTS / "smollm2" / "RuPLaR-plus-seed1")
    assert "| seed | 1 |" in single and "trains it again" in single and "- Only one seed is on record" in single


def test_the_question_shown_is_one_it_answered_right():
    text = made(EMBEDDED / "embedded-ruplar-seed777")
    assert "ruplar ask toy 'At the market Kate buys 3 shirts at $7 each" in text
    latents = "latents whose most likely tokens are `21`, `32`, `53`"
    assert f"In the evaluation it answered `53` after {latents}; the correct answer is `53`." in text


def test_no_path_of_the_machine_enters(tmp_path):
    record = read_record(DATES / "RuPLaR-plus-seed1")
    config = json.loads(json.dumps(record.config))
    config["backbone"] |= {"init": "/home/me/runs/dates-cot", "name": "/home/me/models/base"}
    config["data"]["train"][0] = {"source": "/home/me/data/mine.jsonl"}
    config["training"]["output_dir"] = "~/deep/place"
    asked = [r.model_copy(update={"name": "/home/me/data/asked"}) for r in record.benchmarks[1:2]]
    data = {"train 1: /home/me/data/mine.jsonl": "abc", "test: /home/me/data/asked": "def"}
    folder = copy(tmp_path, DATES / "RuPLaR-plus-seed1", config=config, benchmarks=asked, data=data)
    text = made(folder)
    assert "/home" not in text and "deep/" not in text and str(tmp_path) not in text
    assert "init: dates-cot\n" in text and "| train 1 | mine.jsonl | abc |" in text and "name: asked" in text
    assert "https://arxiv.org/abs/2605.09346" in text


def test_a_partial_run_is_refused_and_as_a_draft_says_so_on_top(tmp_path):
    folder = copy(tmp_path, EMBEDDED / "embedded-ruplar-seed777", dirty=True)
    card = card_of(folder)
    with pytest.raises(UserError, match=r"uncommitted changes.*committed code, or use --drafts"):
        find_model_records(card, folder)
    text = build_card(Written("toy", card, True, 5_000_000, 3.6), find_model_records(card, folder, drafts=True))
    assert re.search(r"^# toy\n\n> \*\*Draft\.\*\* .*the code had uncommitted changes\.$", text, re.M)
    assert "model-index" not in front(text) and "94.8" in text
    unasked = copy(tmp_path / "b", EMBEDDED / "embedded-ruplar-seed777", benchmarks=[])
    with pytest.raises(UserError, match="this run has no results"):
        find_model_records(card, unasked / "run.json")


def test_a_copy_of_the_run_among_the_records_is_no_second_seed(tmp_path):
    folder = MAIN / "RuPLaR-plus-seed2"
    card = card_of(folder)
    shutil.copytree(folder, tmp_path / "run")
    subject = find_model_records(card, tmp_path / "run" / "run.json", [MAIN])
    assert (subject.folder, subject.seeds) == (folder, (1, 2, 3))
    assert find_model_records(card, tmp_path / "run" / "run.json").seeds == (2,)
    with pytest.raises(UserError, match="not the run that trained this model; it differs in method.name"):
        find_model_records(card, MAIN / "No-CoT-seed1")


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
    assert "Latent ablation" not in text and "Only one seed is on record" in text
    others = copy(tmp_path, MAIN / "No-CoT-seed1")
    text = made(alone, [alone, others])
    assert "do not allow paired tests" in text and "| No-CoT | word-problems |" in text
    asked = {key: value for key, value in read_record(folder).config.items() if key != "training"}
    text = made(copy(tmp_path / "b", folder, config=asked))
    assert "not its training" in text and "the mean of the weights" not in text
    text = made(copy(tmp_path / "c", folder, config=asked, mean_of=[1, 2]))
    assert "It is a model soup of the trainings with seeds 1, 2." in text and "Only one soup is" in text
