"""`backbone.lora.continue_adapter`: an adapter is trained through several runs and stays one adapter on the plain backbone."""

import shutil
from pathlib import Path

import pytest
import torch
from cases import cases
from toys import LORA, moved, opened

from ruplar.config import load_recipe
from ruplar.errors import UserError
from ruplar.model.exported import export_model
from ruplar.model.lora import START, unadapted
from ruplar.model.store import Model, load_model, read_metadata, save_model

ON = LORA.model_copy(update={"continue_adapter": True})
TEXT = "the 216 apples and 7 more: how many of 1234?"


@pytest.fixture
def tree(digit_base, monkeypatch):
    """The working folder, with a random backbone in `base`."""
    monkeypatch.chdir(digit_base.parent)
    return digit_base.parent


def start(method="ruplar", **backbone) -> Model:
    return opened(method, **{"name": "base", "number_tokens": True, "lora": LORA, **backbone})


def logits(model: Model) -> torch.Tensor:
    ids = model.backbone.tokenizer.encode(TEXT) + [model.backbone.think_id, model.backbone.end_think_id]
    with torch.no_grad():
        return model.backbone.model(input_ids=torch.tensor([ids])).logits


@pytest.mark.slow
@pytest.mark.parametrize(
    ("digit_base", "embedding"), [(True, False), (False, True)], indirect=["digit_base"],
    ids=["tied rows", "untied embedding"],
)  # fmt: skip
def test_it_starts_where_the_first_run_ended_and_loads_without_it(tree, embedding):
    adapters = {"lora": LORA.model_copy(update={"embedding": embedding})}
    first = moved(start("cot", **adapters), 1)
    save_model(tree / "cot", first)
    on = {"lora": adapters["lora"].model_copy(update={"continue_adapter": True})}
    second = start(init="cot", **on)
    assert torch.equal(logits(second), logits(first)), "markers and number tokens included"
    before = logits(second)
    moved(second, 2)
    save_model(tree / "second", second)
    shutil.rmtree(tree / "cot")  # what it came from is not needed
    found = load_model("second")
    assert torch.equal(logits(found), logits(second)) and not torch.allclose(logits(found), before, atol=1e-3)
    saved = read_metadata(tree / "second").backbone
    assert saved.init is None and saved.lora == adapters["lora"] and saved.number_tokens
    third = start(init="second", **on)
    assert torch.equal(logits(third), logits(second)), "and so on"
    export_model("second", tree / "plain")
    torch.testing.assert_close(logits(load_model("plain")), logits(second), atol=1e-4, rtol=1e-4)


@pytest.mark.slow
def test_the_same_weights_are_trained_as_for_a_new_adapter_and_the_start_is_frozen(tree):
    save_model(tree / "cot", moved(start("cot"), 1))
    fresh, on = start(), start(init="cot", lora=ON)

    def trained(model):
        return {name: w.shape for name, w in model.backbone.model.named_parameters() if w.requires_grad}

    assert trained(on) == trained(fresh) and on.backbone.added == fresh.backbone.added
    first = logits(on)
    moved(on, 2)
    after, names = logits(on), trained(on)
    with unadapted(on.backbone, "the teacher"):
        assert torch.equal(logits(on), first)  # the model training started from is the first run's
    assert torch.equal(logits(on), after) and trained(on) == names
    save_model(tree / "second", on)
    assert not any(START in line for line in _names(tree / "second"))
    # a fresh adapter starts from nothing, so there the teacher is the plain backbone
    moved(fresh, 3)
    with unadapted(fresh.backbone, "the teacher"):
        assert torch.equal(logits(fresh), logits(start()))


def _names(folder: Path) -> list[str]:
    from safetensors import safe_open

    with safe_open(folder / "adapter_model.safetensors", framework="pt") as file:
        return list(file.keys())


@pytest.mark.parametrize(("lora", "change", "said"), cases(__file__, "other_shapes"))
def test_another_backbone_or_another_shape_is_refused_by_name(tree, lora, change, said):
    save_model(tree / "cot", moved(start("cot"), 1))
    with pytest.raises(UserError, match=said):
        start(init="cot", lora=ON.model_copy(update=lora), **change)


@pytest.mark.slow
def test_runs_without_an_adapter_or_on_merged_weights_are_refused(tree):
    save_model(tree / "full", moved(start("cot", lora=None), 1))
    with pytest.raises(UserError, match="continue_adapter: full has no adapter, all its weights were.* Remove contin"):
        start(init="full", lora=ON)
    save_model(tree / "cot", moved(start("cot"), 1))
    save_model(tree / "merged", moved(start(init="cot"), 2))
    with pytest.raises(UserError, match="continue_adapter: the adapter in merged belongs to the .* weights of 'cot'"):
        start(init="merged", lora=ON)
    with pytest.raises(UserError, match="lora.continue_adapter needs init"):
        load_recipe("embedded-no_cot", ["backbone.init=null", "backbone.lora.continue_adapter=true"])
