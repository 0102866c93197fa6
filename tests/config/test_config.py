import sys

import pytest
import yaml
from cases import cases

from ruplar.config import from_dict, load_recipe, recipes, to_yaml
from ruplar.config.recipes import RECIPES
from ruplar.errors import UserError, unknown

SMALL = """
name: small
backbone: {name: embedded, dtype: float32, lora: {dropout: 0.3}}
data: {train: {source: word-problems, count: 10, seed: 1}, valid: {source: word-problems, count: 5, seed: 2}}
prior: {name: mixture, operand_share: 0.3}
method: {name: ruplar, max_latents: 8}
training: {learning_rate: 3e-4, eval_strategy: no}
"""


@pytest.fixture
def small(tmp_path):
    def write(text=SMALL, name="small.yaml"):
        file = tmp_path / name
        file.write_text(text, encoding="utf-8")
        return file

    return write


def problems(file, *overrides):
    with pytest.raises(UserError) as caught:
        load_recipe(file, overrides)
    return caught.value.problems


def test_a_recipe_becomes_a_config_with_the_defaults_filled_in(small):
    config = load_recipe(small())
    assert (config.name, config.seed, config.backbone.name, config.spans.name) == ("small", 777, "embedded", "step")
    assert config.data.train[0].count == 10
    assert config.data.domain.name == "arithmetic"
    assert config.prior.settings.operand_share == 0.3
    assert config.method.make().config.max_latents == 8
    assert config.training == {"learning_rate": 0.0003, "eval_strategy": "no"}


def test_yaml_numbers_and_words_are_read_as_people_mean_them(small):
    config = load_recipe(small(), ["training.weight_decay=1e-2", "training.save_strategy=no", "training.bf16=true"])
    assert config.training["weight_decay"] == 0.01
    assert config.training["save_strategy"] == "no"
    assert config.training["bf16"] is True


def test_a_config_written_out_reads_back_to_the_same_config(small):
    config = load_recipe(small())
    assert from_dict(config.as_dict()) == config
    assert from_dict(yaml.safe_load(to_yaml(config))) == config
    assert load_recipe(small(to_yaml(config), "again.yaml")) == config


def test_overrides_change_single_values_sections_and_lists(small):
    changes = "prior.operand_share=0.5 backbone.lora=null data.train.count=7 data.train.0.seed=9 seed=3"
    config = load_recipe(small(), changes.split())
    assert config.prior.settings.operand_share == 0.5
    assert config.backbone.lora is None
    assert (config.data.train[0].count, config.data.train[0].seed, config.seed) == (7, 9, 3)


def test_naming_another_prior_drops_the_settings_the_recipe_gave_to_the_first(small):
    config = load_recipe(small(), ["prior.name=temperature"])
    assert "operand_share" not in config.as_dict()["prior"]
    # in any order, and those given beside it are kept
    config = load_recipe(small(), ["prior.temperature=0.7", "prior.name=temperature"])
    assert config.prior.settings.temperature == 0.7


def test_a_setting_the_other_prior_does_not_know_is_refused_when_it_is_given_beside_its_name(small):
    (problem,) = problems(small(), "prior.name=temperature", "prior.operand_share=0.5")
    assert "unknown setting of prior temperature 'operand_share'" in problem


def test_all_problems_are_told_at_once_with_the_nearest_name(small):
    text, wanted = cases(__file__, "all_problems")
    found = problems(small(text))
    for start in wanted:
        assert any(problem.startswith(start) for problem in found), (start, found)
    assert len(found) == len(wanted)


def test_the_message_names_the_recipe_and_what_came_from_the_command_line(small):
    file = small()
    with pytest.raises(UserError) as caught:
        load_recipe(file, ["prior.operand_share=0.5", "prior.operand_share=2"])  # the last one counts
    assert str(caught.value).startswith(f"1 problem in {file}")
    assert "prior.operand_share: must be at most 1, got 2. (given as prior.operand_share=2)" in str(caught.value)


def test_what_is_required_is_asked_for(small):
    assert problems(small("seed: 1")) == ["name: is required.", "data: is required.", "method: is required."]
    (problem,) = problems(small(SMALL.replace("name: ruplar, ", "")))
    assert problem.startswith("method.name: is required. Known: ") and "ruplar" in problem


@pytest.mark.parametrize(("text", "place"), cases(__file__, "mistakes"))
def test_yaml_mistakes_are_located(small, text, place):
    (problem,) = problems(small(text))
    assert problem.startswith(place)


@pytest.mark.parametrize(("override", "said"), cases(__file__, "earlier"))
def test_a_setting_of_an_earlier_version_is_answered_with_its_new_name(small, override, said):
    (problem,) = problems(small(), override)
    assert problem.startswith(said)


def test_a_file_without_sections_is_refused(small):
    assert "has none" in problems(small("just words"))[0]


def test_overrides_that_cannot_be_read_are_told_together(small):
    found = problems(small(), "seed", "prior.name=", "seed.x=1", "data.train.4.count=1", "seed=[1")
    # the recipe has no seed: section to look into, so seed.x finds its place and fails the check instead
    wanted = ["'seed'", "'prior.name='", "'seed=[1'", "'data.train.4.count'"]
    assert [p.split(":")[0].split(" ")[0] for p in found] == wanted


def test_generated_training_problems_may_not_be_those_of_a_test(small):
    assert "test problems" in problems(small(), "data.train=word-problems", "data.train.count=5")[0]
    assert "needs a count" in problems(small(), "data.train.count=null")[0]
    assert "also generates data.valid" in problems(small(), "data.train.seed=2")[0]
    assert "data.valid: 'svamp' is a test set. Select" in problems(small(), "data.valid=svamp")[-1]
    assert "data.valid would be the test problems" in problems(small(), "data.valid=word-problems")[0]


def test_settings_that_contradict_each_other_are_refused(small):
    assert "exclude each other" in problems(small(), "backbone.weights=random", "backbone.init=embedded:cot")[0]
    assert "nothing to evaluate on" in problems(small(), "data.valid=null", "training.eval_strategy=epoch")[0]
    assert "no folder 'runs/none'" in problems(small(), "backbone.init=runs/none")[0]


def test_a_set_that_needs_a_package_which_is_not_installed_is_refused(small, monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    [problem] = problems(small(), "data.train=hub:owner/chains")
    assert "data.train.source: Reading 'owner/chains' from the Hugging Face Hub needs the package" in problem


def test_a_recipe_may_build_on_another(small):
    base = small()
    changes = "prior: {name: gumbel}\nbackbone: {name: embedded-dates}\ntraining: {max_steps: 3}\n"
    child = small(f"base: {base.name}\nname: child\n{changes}", "child.yaml")
    config = load_recipe(child)
    assert (config.name, config.prior.name, config.method.settings.max_latents) == ("child", "gumbel", 8)
    assert config.training == {"learning_rate": 0.0003, "eval_strategy": "no", "max_steps": 3}
    # only a plug-in's settings go with its name
    assert (config.backbone.name, config.backbone.dtype, config.backbone.lora.dropout) == (
        "embedded-dates",
        "float32",
        0.3,
    )
    assert config.backbone == load_recipe(base, ["backbone.name=embedded-dates"]).backbone
    round_ = small("base: round.yaml\nname: round\n", "round.yaml")
    assert "leads back" in problems(round_)[0]


def test_an_unknown_recipe_is_answered_with_the_nearest(small):
    with pytest.raises(UserError, match="unknown recipe 'rupla'. Did you mean 'ruplar'"):
        load_recipe("rupla")
    assert unknown("set", "x", ["b", "a", "b"]).endswith("Known: a, b.")
    with pytest.raises(UserError, match="no recipe file"):
        load_recipe("nowhere.yaml")


@pytest.mark.parametrize("name", sorted(recipes()))
def test_every_packaged_recipe_is_right_and_headed_by_what_one_needs_to_run_it(name):
    config = load_recipe(name, check_files=False)
    assert config.name == name
    heading = (RECIPES.folder / f"{name}.yaml").read_text(encoding="utf-8").split("\nname:")[0]
    assert len(recipes()[name]) > 20
    assert "docs/results" in heading or "docs/log.md" in heading, "where its score stands"
    assert all(word in heading for word in ("# Hardware:", "# Score:", "# Command:", f"ruplar train {name}"))


def test_the_papers_recipe_says_what_the_paper_prints():
    config = load_recipe("ruplar", check_files=False)
    assert (config.backbone.lora.rank, config.backbone.lora.alpha, config.seed) == (32, 64, 777)
    assert config.prior.settings.operand_share == 0.2
    training = config.training
    # effective batch 256, at most 10 epochs
    assert training["per_device_train_batch_size"] * training["gradient_accumulation_steps"] == 256
    assert training["num_train_epochs"] == 10
    m = config.method.settings
    assert (m.answer_weight, m.prior_weight, m.align_weight, m.focus_threshold) == (1, 1, 1, 0.01)
    assert (m.halt, m.feed_top_k, m.align_normalize) == ("argmax", 0, False)


def test_the_training_fields_are_those_of_transformers():
    from dataclasses import fields

    from transformers import TrainingArguments

    from ruplar.config.training import _fields

    assert set(_fields().model_fields) == {field.name for field in fields(TrainingArguments) if field.init}


@pytest.mark.parametrize(("override", "said"), cases(__file__, "hostile"))
def test_a_hostile_override_is_refused_in_a_short_message(override, said):
    with pytest.raises(UserError) as error:
        long = override.replace("LONG", "a" * 100_000).replace("DEEP", "[" * 1200 + "]" * 1200)
        load_recipe("embedded-ruplar", [long])
    assert said in str(error.value) and len(str(error.value)) < 1000


def test_a_recipe_whose_aliases_multiply_is_refused(small):
    lists = "".join(f"{b}: &{b} [{', '.join([f'*{a}'] * 9)}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True))
    assert "more than 20 aliases" in problems(small(f"a: &a [x, x]\n{lists}data: *i\n"))[0]
