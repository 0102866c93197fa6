"""Weights ↔ safetensors: what was saved comes back, and other models' weights are refused."""

import json

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from ruplar.errors import UserError
from ruplar.model.settings import LoraSettings
from ruplar.model.weights import load_weights, save_weights


def trained(backbone):
    return {name: w.detach().clone() for name, w in backbone.model.named_parameters() if w.requires_grad}


@pytest.mark.parametrize(
    ("family", "tied", "embedding"),
    [("llama", True, False), ("llama", False, True), ("qwen2", True, True), ("gpt2", False, False)],
)
def test_an_adapter_comes_back_bit_for_bit_with_its_marker_rows(tiny_backbone, tmp_path, family, tied, embedding):
    lora = LoraSettings(rank=4, alpha=8, embedding=embedding)
    one = tiny_backbone(family, lora=lora, seed=1, tied=tied)
    save_weights(one, {}, tmp_path)
    other = tiny_backbone(family, lora=lora, seed=2, tied=tied)
    assert not all(torch.equal(w, trained(other)[n]) for n, w in trained(one).items())
    load_weights(other, {}, tmp_path)
    assert all(torch.equal(w, trained(other)[n]) for n, w in trained(one).items())
    assert all(w.requires_grad for n, w in other.model.named_parameters() if n in trained(one))
    # only the adapter is in the file: no matrix of the model itself
    assert max(t.numel() for t in load_file(tmp_path / "adapter_model.safetensors").values()) < 260 * 32


def test_floating_weights_can_be_stored_in_half_and_come_back_in_the_models_precision(tiny_backbone, tmp_path):
    one, other = tiny_backbone(seed=1), tiny_backbone(seed=2)
    save_weights(one, {}, tmp_path / "whole", torch.bfloat16)
    assert {t.dtype for t in load_file(tmp_path / "whole" / "model.safetensors").values()} == {torch.bfloat16}
    assert "lm_head.weight" not in load_file(tmp_path / "whole" / "model.safetensors")  # tied: stored once
    assert json.loads((tmp_path / "whole" / "config.json").read_text())["dtype"] == "bfloat16"
    load_weights(other, {}, tmp_path / "whole")
    assert other.embedding.weight.dtype == torch.float32
    assert torch.equal(other.embedding.weight, one.embedding.weight.bfloat16().float())
    adapted = tiny_backbone(lora=LoraSettings(rank=2, alpha=4))
    save_weights(adapted, {"gate": nn.Linear(2, 2)}, tmp_path / "lora", torch.bfloat16)
    for file in ("adapter_model.safetensors", "method.safetensors"):
        assert {t.dtype for t in load_file(tmp_path / "lora" / file).values()} == {torch.bfloat16}


def test_missing_and_mismatched_files_are_refused_with_their_name(tiny_backbone, tmp_path):
    lora = LoraSettings(rank=4, alpha=8)
    save_weights(tiny_backbone(lora=lora), {}, tmp_path / "a")
    with pytest.raises(
        UserError, match=r"adapter_model.safetensors: .*down_proj.lora_A.weight is \[4, 48\], the model's \[2, 48\]"
    ):
        load_weights(tiny_backbone(lora=LoraSettings(rank=2, alpha=4)), {}, tmp_path / "a")
    with pytest.raises(UserError, match="has 24 weights the model lacks"):
        load_weights(tiny_backbone(lora=LoraSettings(rank=4, alpha=8, targets=("q_proj",))), {}, tmp_path / "a")
    with pytest.raises(UserError, match="method.safetensors: no such file"):
        load_weights(tiny_backbone(lora=lora), {"gate": nn.Linear(1, 1)}, tmp_path / "a")
    (tmp_path / "a" / "adapter_model.safetensors").unlink()
    with pytest.raises(UserError, match="adapter_model.safetensors: no such file"):
        load_weights(tiny_backbone(lora=lora), {}, tmp_path / "a")


def test_whole_models_of_another_shape_or_none_at_all_are_refused(tiny_backbone, tmp_path):
    save_weights(tiny_backbone("llama", tied=False), {}, tmp_path / "untied")
    with pytest.raises(UserError, match="untied: its weights do not fit this model"):
        load_weights(tiny_backbone("llama", tied=True), {}, tmp_path / "untied")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="empty: its weights cannot be read"):
        load_weights(tiny_backbone(), {}, tmp_path / "empty")
    with pytest.raises(UserError, match="has no adapter"):
        load_weights(tiny_backbone(lora=LoraSettings(rank=2, alpha=4)), {}, tmp_path / "untied")
