"""What is prepared ahead, without weights and before its start is trained, is what training finds."""

import json
import logging
import shutil

import pytest

from ruplar import plugins
from ruplar.config import from_dict
from ruplar.data.cache import ENCODED
from ruplar.model.settings import BackboneConfig, PromptConfig
from ruplar.model.store import Model, ModelMetadata, PluginSpec, load_start, save_model
from ruplar.train.prepare import encoding_of, prepare, start_prompt_format
from ruplar.train.run import train

PROMPT = PromptConfig(template="plain", instruction="")
LORA = {"rank": 4, "alpha": 8}


@pytest.fixture
def recipe(config, tmp_path):
    """Settings → a recipe of one step that is encoded ahead and takes long to open: it is held against a test set."""
    row = {"question": "Tom has 2 apples and buys 3 more. How many?", "answer": "<<2+3=5>>\n#### 5"}
    (tmp_path / "test.jsonl").write_text(json.dumps(row), encoding="utf-8")

    def make(speed=True, against=True, backbone=None, seed=5, **settings):
        made = config(max_steps=1, per_device_train_batch_size=2, **settings).as_dict()
        made["data"]["decontaminate"] = [str(tmp_path / "test.jsonl")] if against else []
        made["backbone"] |= backbone or {}
        return from_dict({**made, "speed": {"pretokenize": speed}, "seed": seed})

    return make


def _files(folder):
    """Every file of what is kept, locks apart, and when it was written."""
    return {f: f.stat().st_mtime_ns for f in folder.glob("[!.]*/**/*") if f.is_file()}


def _trains_on_it(config, run, caplog):
    """Train beside what was prepared; true where nothing was opened or encoded again."""
    before = _files(run.parent / ENCODED)
    caplog.clear()
    with caplog.at_level(logging.INFO, logger="ruplar.train"):
        train(config, output=run)
    made = [text for text in caplog.messages if text.endswith(("chains encoded.", "chains kept."))]
    return bool(before) and _files(run.parent / ENCODED) == before and not made


def test_training_finds_what_was_prepared_without_any_weights(recipe, backbone_folder, tmp_path, caplog):
    shutil.copytree(backbone_folder, tmp_path / "bare", ignore=shutil.ignore_patterns("*.safetensors"))
    done = prepare(recipe(backbone={"name": str(tmp_path / "bare")}), tmp_path / ENCODED)
    assert done.chains == 64 and not done.note and not done.there
    assert done.folder in set((tmp_path / ENCODED).glob("[!.]*"))
    assert _trains_on_it(recipe(), tmp_path / "run", caplog)
    again = prepare(recipe(seed=6), tmp_path / ENCODED)  # the seed changes no sequence
    assert again.there and again.folder == done.folder


@pytest.mark.parametrize(
    ("first", "lora"),
    [(None, LORA), (LORA, LORA), (LORA, {**LORA, "continue_adapter": True})],
    ids=["all weights", "an adapter, merged", "an adapter, trained further"],
)
def test_a_start_that_is_trained_later_changes_nothing(recipe, tmp_path, caplog, first, lora):
    config = recipe(backbone={"init": str(tmp_path / "start"), "lora": lora})
    done = prepare(config, tmp_path / ENCODED)
    # going on, training refuses a start of another tokenizer; otherwise it is said what was taken for granted
    assert ("start' does not exist yet" in done.note) == (not lora.get("continue_adapter"))
    train(recipe(lora=first, speed=False, method="cot"), output=tmp_path / "start")
    assert _trains_on_it(config, tmp_path / "run", caplog)
    now = prepare(config, tmp_path / ENCODED)
    assert now.there and not now.note


@pytest.mark.parametrize("first", [{}, {"number_tokens": True}, {"lora": None}], ids=str)
@pytest.mark.parametrize("second", [{}, {"number_tokens": True}], ids=str)
def test_tokens_are_those_of_the_start_that_training_opens(tmp_path, digit_base, monkeypatch, first, second):
    monkeypatch.chdir(tmp_path)
    below = BackboneConfig(name="base", **first)
    metadata = ModelMetadata(
        method=PluginSpec(name="cot"), backbone=below, prompt=PROMPT, domain=PluginSpec(name="arithmetic")
    )
    made = Model(
        load_start(below, PROMPT), plugins.make("methods", "cot"), plugins.make("domains", "arithmetic"), metadata
    )
    save_model(tmp_path / "start", made)
    # `name` is not looked at where there is a start: what lies there says whose tokens it has
    config = BackboneConfig(name="embedded", init="start", **second)
    words, model = start_prompt_format(config, PROMPT), load_start(config, PROMPT)
    assert words.tokenizer.backend_tokenizer.to_str() == model.tokenizer.backend_tokenizer.to_str()
    assert words.prompt("1234 + 7") == model.prompt("1234 + 7") and words.prompt.controls == model.prompt.controls
    assert (words.markers, words.pad_id) == (model.markers, model.pad_id)


@pytest.mark.parametrize(("kind", "name"), [("method", "coconut"), ("prior", "gumbel")])
def test_rows_that_change_between_epochs_are_loaded_but_not_pretokenized(recipe, tmp_path, kind, name):
    done = prepare(recipe(**{kind: name}), tmp_path / ENCODED)
    assert done.folder is None and done.note.startswith(f"{kind} '{name}' changes") and done.chains == 64
    assert len(list((tmp_path / ENCODED).glob("[!.]*"))) == 1  # the loaded chains
    prepare(recipe(against=False, **{kind: name}), tmp_path / "other")
    assert (tmp_path / "other").exists() == (kind == "method"), "it reads generated problems in every epoch"


def test_recipes_share_an_encoding_where_they_differ_in_what_no_sequence_shows(recipe):
    plain = encoding_of(recipe())
    weights = {"name": "ruplar", "align_weight": 0.5}
    assert plain == encoding_of(recipe(seed=9)) == encoding_of(recipe(method=weights, learning_rate=1e-3))
    others = [recipe(prior="uniform"), recipe(method="cot"), recipe(rows=65), recipe(speed=False)]
    others.append(recipe(backbone={"init": "runs/first"}))
    assert len({plain, *map(encoding_of, others)}) == 6
