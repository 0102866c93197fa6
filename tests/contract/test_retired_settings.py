"""Settings that were removed: models and records that have them at their neutral value load; in use, they are refused."""

from pathlib import Path

import pytest

from ruplar import plugins
from ruplar.errors import UserError
from ruplar.model.store import read_metadata
from ruplar.renamed import RETIRED, upgrade

RELEASED = sorted(Path(__file__).parents[2].glob("models/*/ruplar.json"))
OF_METHOD = {path.removeprefix("method."): value for path, value in RETIRED.items() if path.startswith("method.")}


def metadata(name: str, **settings) -> dict:
    return {"method": {"name": name, "settings": settings}}


@pytest.mark.parametrize("file", RELEASED, ids=lambda file: file.parent.name)
def test_the_methods_of_released_models_load(file):
    method = read_metadata(file.parent).method
    config = plugins.make("methods", method.name, method.settings).config.model_dump(mode="json")
    assert config.items() >= method.settings.items()


def test_there_are_released_models():
    assert RELEASED and any("own_latents" in file.read_text(encoding="utf-8") for file in RELEASED)


@pytest.mark.parametrize("name", ["ruplar", "regular", "codi"])
def test_retired_settings_are_dropped_at_their_neutral_value(name):
    assert OF_METHOD.keys() >= {"block", "own_latents", "step_weight", "distill_hidden", "align_layer", "feature_file"}
    assert upgrade(metadata(name, max_latents=4, **OF_METHOD)) == metadata(name, max_latents=4)
    flat = upgrade({"method": {"name": name, "max_latents": 4, **OF_METHOD}})
    assert flat == {"method": {"name": name, "max_latents": 4}}


def test_retired_settings_in_use_are_refused_together():
    with pytest.raises(UserError) as error:
        upgrade(metadata("ruplar", block=6, step_weight=0.3, own_passes=1), "old/ruplar.json")
    assert len(error.value.problems) == 2
    assert "method.block: 6 was removed" in str(error.value) and "old/ruplar.json" in str(error.value)


def test_a_recipe_that_stored_all_activations_loads_and_another_is_told_what_to_use():
    assert upgrade({"speed": {"compile": True, "keep": 1.0}}) == {"speed": {"compile": True}}
    with pytest.raises(UserError, match=r"speed.keep: 0.4 was removed.*training.gradient_checkpointing"):
        upgrade({"speed": {"compile": True, "keep": 0.4}})


def test_records_retain_retired_settings_in_use():
    assert upgrade(metadata("ruplar", block=6, own_passes=1), strict=False) == metadata("ruplar", block=6)


def test_other_methods_may_have_settings_of_the_same_names():
    given = metadata("my.method", block=1, own_latents=0.0)
    assert upgrade(given) == given
