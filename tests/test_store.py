"""A model ↔ its folder: what was saved answers the same, chains of runs hold together, half a folder is never left."""

import shutil
from pathlib import Path

import pytest
import torch
from toys import LORA, PROMPT, moved, opened

from ruplar.errors import UserError
from ruplar.io import write_text
from ruplar.model import store
from ruplar.model.exported import export_model
from ruplar.model.settings import BackboneConfig
from ruplar.model.soup import average
from ruplar.model.store import METADATA_FILE, Model, find_model, load_model, load_start, save_model, start_mark
from ruplar.model.tokenizers import load_tokenizer

IDS = torch.tensor([[9, 30, 400, 7, 2000]])


@pytest.fixture
def tree(tmp_path, tiny_model, monkeypatch):
    """A folder, made the working one, with a random backbone in `base` as Hugging Face writes it."""
    tokenizer = load_tokenizer("embedded")
    tokenizer.save_pretrained(tmp_path / "tree" / "base")
    tiny_model("llama", len(tokenizer)).save_pretrained(tmp_path / "tree" / "base")
    monkeypatch.chdir(tmp_path / "tree")
    return tmp_path / "tree"


def trained(method="ruplar", seed=1, **backbone) -> Model:
    return moved(opened(method, **{"name": "base", "lora": LORA, **backbone}), seed)


def logits(model: Model) -> torch.Tensor:
    with torch.no_grad():
        return model.backbone.model(input_ids=IDS).logits


@pytest.mark.parametrize("lora", [LORA, LORA.model_copy(update={"words": ("dozen",)}), None])
def test_a_saved_model_loads_bit_for_bit_with_its_metadata(tree, lora):
    model = trained(lora=lora)
    save_model(tree / "run" / "model", model)
    found = load_model("run")
    assert torch.equal(logits(found), logits(model)) and found.metadata == model.metadata
    assert not torch.equal(logits(found), logits(trained(lora=lora, seed=2)))
    assert found.method.config == model.method.config and not found.backbone.model.training
    assert found.backbone.tokenizer.get_vocab() == model.backbone.tokenizer.get_vocab()
    export_model("run", tree / "plain")
    torch.testing.assert_close(logits(load_model("plain")), logits(model), atol=1e-5, rtol=1e-4)


def test_an_adapter_folder_has_only_the_adapter_and_a_full_one_is_self_contained(tree):
    save_model(tree / "small", trained())
    save_model(tree / "full", trained(lora=None))
    files = {METADATA_FILE, "adapter_config.json", "adapter_model.safetensors"}
    assert {f.name for f in (tree / "small").iterdir()} == files
    wanted = logits(load_model("full"))
    shutil.rmtree(tree / "base")
    assert torch.equal(logits(load_model("full")), wanted)


def test_a_run_may_start_from_another_runs_adapter(tree):
    first = trained("cot")
    save_model(tree / "runs/cot/model", first)
    second = trained("ruplar", seed=2, init="runs/cot")
    save_model(tree / "runs/ruplar/model", second)
    found = load_model("runs/ruplar")
    torch.testing.assert_close(logits(found), logits(second), atol=1e-6, rtol=0)
    # the first adapter is under it: without the second's weights it is the first run's model
    start = load_start(second.metadata.backbone, PROMPT, adapt=False)
    with torch.no_grad():
        torch.testing.assert_close(start.model(input_ids=IDS).logits, logits(first), atol=1e-5, rtol=1e-4)
    third = trained("ruplar", seed=3, init="runs/ruplar")
    save_model(tree / "runs/third/model", third)
    torch.testing.assert_close(logits(load_model("runs/third")), logits(third), atol=1e-6, rtol=0)


def test_a_tree_of_runs_can_be_moved(tree, tmp_path, monkeypatch):
    save_model(tree / "runs/cot/model", trained("cot"))
    second = trained("ruplar", seed=2, init="runs/cot")
    save_model(tree / "runs/ruplar/model", second)
    tree.rename(tmp_path / "moved")
    monkeypatch.chdir(tmp_path)
    torch.testing.assert_close(logits(load_model("moved/runs/ruplar")), logits(second), atol=1e-6, rtol=0)


@pytest.mark.parametrize("name", ["embedded", "embedded-dates", "smollm2-135m-instruct"])
def test_a_folder_named_like_a_known_model_is_not_taken_for_it(tmp_path, name):
    for path in (f"{name}/config.json", f"embedded:cot/{METADATA_FILE}", "base/config.json"):
        write_text(tmp_path / path, "{}")
    config = BackboneConfig(name=name, init="embedded:cot")
    assert store.relocated(config, tmp_path / "run") == config
    assert store.relocated(BackboneConfig(name="base"), tmp_path / "run").name == str(tmp_path / "base")


def test_a_missing_backbone_or_init_is_named(tree):
    save_model(tree / "cot", trained("cot"))
    save_model(tree / "run", trained(init="cot"))
    shutil.rmtree(tree / "base")
    with pytest.raises(UserError, match="'base'"):
        load_model("run")
    shutil.rmtree(tree / "cot")
    with pytest.raises(UserError, match="cot: no such model folder"):
        load_model("run")


def test_folders_that_are_not_models_are_refused(tree):
    with pytest.raises(UserError, match="base: no ruplar.json in this folder.*ruplar train"):
        find_model("base")
    with pytest.raises(UserError, match="nowhere: no such model folder.*embedded:ruplar"):
        find_model("nowhere")
    (tree / "runs/mine/model").mkdir(parents=True)
    (tree / "runs/mine/model/ruplar.json").touch()
    for wrong, said in (("runs/mne", "Did you mean 'runs/mine'"), ("runs", "Models in it: runs/mine")):
        with pytest.raises(UserError, match=said):
            find_model(wrong)


@pytest.mark.parametrize("earlier", [False, True])
def test_an_interrupted_save_leaves_no_half_folder_and_can_be_made_again(tree, monkeypatch, earlier):
    old, fresh = trained(), trained(seed=2)
    if earlier:
        save_model(tree / "run", old)

    def cut_short(backbone, modules, folder, dtype, base):
        (folder / "adapter_model.safetensors").write_bytes(b"half")
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(store, "save_weights", cut_short)
        with pytest.raises(KeyboardInterrupt):
            save_model(tree / "run", fresh)
    assert (tree / "run").exists() == earlier
    if earlier:
        assert torch.equal(logits(load_model("run")), logits(old))
    save_model(tree / "run", fresh)
    assert torch.equal(logits(load_model("run")), logits(fresh))
    assert [f.name for f in tree.iterdir() if f.name.startswith(".run")] == []


@pytest.mark.parametrize(
    "write", [save_model, lambda to, _: export_model("old", to), lambda to, _: average(["old", "run"], to)]
)
def test_only_a_model_or_an_empty_folder_is_replaced(tree, write):
    model = trained()
    for name in ("old", "run"):
        save_model(tree / name, model)
    said = {"run": r"would delete .*\(checkpoint-1\).* run/final", "notes": "thesis.md", "file": "is a file"}
    kept = [write_text(tree / name, "kept") for name in ("run/checkpoint-1/x", "notes/thesis.md", "file")]
    for name, why in said.items():
        with pytest.raises(UserError, match=why):
            write(Path(name), model)
    assert {file.read_text() for file in kept} == {"kept"}
    (tree / "new").mkdir()
    for name in ("new", "new", "run/final"):
        write(Path(name), model)
        assert find_model(name) == Path(name)


@pytest.mark.slow
@pytest.mark.parametrize("lora", [LORA, None])
def test_a_methods_own_weights_are_saved_read_and_exported_with_the_model(tree, lora):
    from ruplar.reasoner import LatentReasoner

    model = trained("codi", lora=lora)
    save_model(tree / "run", model)
    export_model("run", tree / "plain")
    wanted = LatentReasoner(model, engine="reference").generate(["3+4?"], keep="embeds")[0]
    for folder in ("run", "plain"):
        assert (tree / folder / "method.safetensors").is_file()
        found = LatentReasoner(load_model(folder)).generate(["3+4?"], keep="embeds")[0]
        assert found.answer_ids == wanted.answer_ids and found.latent_count == 6
        for ours, theirs in zip(found.latent_embeds, wanted.latent_embeds, strict=True):
            torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-3)
    (tree / "run" / "method.safetensors").unlink()
    with pytest.raises(UserError, match="method.safetensors: no such file"):
        load_model("run")


def test_a_start_is_identified_by_its_weights_and_those_under_its_adapter(tree):
    assert start_mark(None) == {}
    save_model(tree / "cot" / "model", trained())
    first = start_mark("cot")
    [(name, mark)] = first.items()
    assert name == "start: cot" and len(mark) == 64
    shutil.copytree("cot", "copy")
    assert start_mark("copy") == {"start: copy": mark}  # another place, the same weights
    save_model(tree / "second", trained(init="cot"))
    above = start_mark("second")
    save_model(tree / "cot" / "model", trained(seed=2))
    assert start_mark("cot") != first
    assert start_mark("second") != above  # its own adapter is the same; what it stands on is not
