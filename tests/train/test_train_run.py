"""Recipe → model folder."""

import json
import logging

import pytest
from cases import cases

from ruplar.config import from_dict
from ruplar.errors import UserError
from ruplar.model.settings import PromptConfig
from ruplar.train import METRICS
from ruplar.train.progress import rows
from ruplar.train.run import TrainingRun, train

SAVING = {"save_strategy": "steps", "save_steps": 2}
VALIDATING = {"valid": True, "eval_strategy": "steps", "eval_steps": 2, **SAVING}


def weights(folder):
    from safetensors.torch import load_file

    return {name: tensor.tolist() for file in folder.glob("*.safetensors") for name, tensor in load_file(file).items()}


def test_a_recipe_becomes_the_best_model_and_a_moved_run_still_knows_it(config, tmp_path):
    from ruplar.reasoner import LatentReasoner

    shown, here, there = [], tmp_path / "here", tmp_path / "there"
    result = train(config(max_steps=4, **VALIDATING), output=here, progress=shown.append)
    assert result.path == here / "model" and result.steps == 4 and result.rows == 64
    assert result.trainable < result.parameters and result.tokens > 0 and result.seconds > 0 and result.best_step == 2
    assert set(result.fingerprints) == {"train 1: word-problems", "valid: word-problems"}
    # begin; every step; two rows, each with a validation; end
    assert [p.step for p in shown] == [0, 1, 2, 2, 2, 3, 4, 4, 4, 4]
    assert [p.step for p in shown if p.row] == [2, 2, 4, 4]
    # both validations of an untrained model have the same accuracy, so the first stays the best
    assert weights(here / "model") == weights(here / "checkpoint-2") != weights(here / "checkpoint-4")
    answers = LatentReasoner.from_pretrained(here).ask(["How many?", "Why is it so?"], return_latents=True)
    assert len(answers) == 2 and all(answer.forwards > 1 for answer in answers)
    here.rename(there)
    for steps in (4, 6):  # finished, and trained further
        result = train(config(max_steps=steps, **VALIDATING), output=there, resume=True)
        assert result.best_step == 2 and weights(there / "model") == weights(there / "checkpoint-2")


def test_a_resumed_run_equals_an_uninterrupted_one(config, tmp_path, monkeypatch):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    # a constant rate: the first half must not know how long the run will be
    settings = {"logging_steps": 3, "lr_scheduler_type": "constant", "prior": "gumbel", **SAVING}
    train(config(max_steps=8, **settings), output=whole)
    with monkeypatch.context() as earlier:  # a former name
        earlier.setattr("ruplar.train.trainer._METRIC_STATE", "tally.json")
        train(config(max_steps=4, **settings), output=cut)
    result = train(config(max_steps=8, **settings), output=cut, resume=True)
    assert result.resumed_from == cut / "checkpoint-4" and weights(cut / "model") == weights(whole / "model")
    timing = {"tokens_per_second", "memory_gb"}
    strip = lambda run: [{k: v for k, v in row.items() if k not in timing} for row in rows(run / METRICS)]  # noqa: E731
    assert strip(cut) == strip(whole) and [row["step"] for row in strip(whole)] == [3, 6]
    again = train(config(max_steps=8, **settings), output=cut, resume=True)
    assert again.steps == 8 and weights(cut / "model") == weights(whole / "model")
    spent = [
        json.loads((cut / f"checkpoint-{step}" / "metric_accumulator.json").read_text())["seconds"] for step in (6, 8)
    ]
    assert again.tokens == result.tokens and 0 < spent[0] < spent[1] < again.seconds  # time adds up over sessions


def test_a_run_is_not_resumed_upon_another_start(config, tmp_path, monkeypatch, caplog):
    monkeypatch.chdir(tmp_path)
    train(config(max_steps=2), output=tmp_path / "first")
    train(config(max_steps=3), output=tmp_path / "other")
    on = {"max_steps": 2, "init": "first", **SAVING}
    train(config(**on), output=tmp_path / "run")
    assert "another prompt" not in caplog.text
    changed = config(**on).model_copy(update={"prompt": PromptConfig(answer="#### {answer}")})
    train(changed, output=tmp_path / "changed")
    said = caplog.text.partition("backbone.init: 'first' was trained with another prompt: ")[2]
    assert said.startswith("prompt.template 'plain', now 'chat'; ") and "question_repeats" not in said
    begun = json.loads((tmp_path / "run" / "start.json").read_text())
    assert list(begun) == ["start: first"]
    (tmp_path / "first").rename(tmp_path / "moved")
    assert train(config(**on | {"max_steps": 4, "init": "moved"}), output=tmp_path / "run", resume=True).steps == 4
    with pytest.raises(UserError, match="recipe.yaml: backbone.init differ from the config"):
        train(config(**on | {"init": None}), output=tmp_path / "run", resume=True)
    (tmp_path / "other").rename(tmp_path / "first")
    with pytest.raises(UserError, match="start.json: the content of start: first has changed since"):
        train(config(**on | {"max_steps": 6}), output=tmp_path / "run", resume=True)


def test_an_existing_run_is_not_overwritten_and_resuming_with_a_changed_recipe_warns(config, tmp_path, caplog):
    (tmp_path / "metrics.jsonl").touch()  # left by a run that failed before its first step
    train(config(max_steps=2, **SAVING), output=tmp_path)
    (tmp_path / "short" / "model").mkdir(parents=True)  # of a run too short for a log line
    for begun, way in ((tmp_path, "Add --resume .* more steps"), (tmp_path / "short", "Choose another folder")):
        with pytest.raises(UserError, match=f"contains a run already. It is finished. {way}"):
            train(config(max_steps=2, **SAVING), output=begun)
    with caplog.at_level(logging.WARNING):
        train(config(max_steps=2, **SAVING), output=tmp_path, resume=True)
        assert "the recipe has changed" not in caplog.text
        train(config(max_steps=4, **SAVING), output=tmp_path, resume=True)
    assert "the recipe has changed" in caplog.text
    other = config(max_steps=4, prior="uniform", lora={"rank": 2, "alpha": 8}, **SAVING)
    other = other.model_copy(update={"prompt": PromptConfig(template="plain", instruction="Think.")})
    named = r"backbone\.lora\.rank, prior\.name, .*prompt\.instruction"
    with pytest.raises(UserError, match=f"recipe.yaml: {named} differ from the config this run was started with"):
        train(other, output=tmp_path, resume=True)
    (tmp_path / "data.json").write_text((tmp_path / "data.json").read_text().replace("seed 1", "seed 3"))
    with pytest.raises(UserError, match="data.json: the content of train 1: word-problems has changed since"):
        train(config(max_steps=6, **SAVING), output=tmp_path, resume=True)


@pytest.mark.parametrize(("settings", "backbone", "speed", "said"), cases(__file__, "refused"))
def test_settings_that_cannot_work_together_are_refused(config, tmp_path, settings, backbone, speed, said):
    recipe = config(max_steps=1, **settings).as_dict()
    recipe["backbone"] |= backbone
    with pytest.raises(UserError, match=said):
        train(from_dict({**recipe, "speed": speed}), output=tmp_path / "run")
    assert not (tmp_path / "run" / "model").exists()


def test_outside_a_study_all_weights_in_bfloat16_are_trained_with_a_warning(config, tmp_path, caplog):
    recipe = config(lora=None, max_steps=1).as_dict()
    recipe["backbone"]["dtype"] = "bfloat16"
    assert train(from_dict(recipe), output=tmp_path).steps == 1
    assert "all weights are trained in bfloat16 without a float32 copy" in caplog.text


def test_random_weights_follow_the_seed(config, tmp_path):
    recipe = config(lora=None).as_dict()
    recipe["backbone"]["weights"] = "random"
    runs = [TrainingRun(from_dict({**recipe, "seed": seed}), tmp_path) for seed in (1, 1, 2)]
    found = [{name: w.tolist() for name, w in run.model.backbone.model.state_dict().items()} for run in runs]
    assert found[0] == found[1] != found[2]


def test_folded_adapters_work_with_gradient_checkpointing(config, tmp_path):
    losses = []
    for again in (False, True):
        made = config(
            gradient_checkpointing=again, max_steps=2, logging_steps=1, lora={"rank": 4, "alpha": 8, "dropout": 0.0}
        )
        train(from_dict({**made.as_dict(), "speed": {"fold_lora": True}}), output=tmp_path / str(again))
        losses.append([row["loss"] for row in rows(tmp_path / str(again) / METRICS)])
    assert len(losses[0]) == 2 and losses[1] == pytest.approx(losses[0], rel=1e-5)
