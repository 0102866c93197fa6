"""Borrowed layers: the embedded model's, under a domain's own words; and Liger's kernels in place of some."""

import pytest
import torch

from ruplar.errors import UserError
from ruplar.model import backbone
from ruplar.model.backbone import Backbone
from ruplar.model.load import load_backbone
from ruplar.model.settings import BackboneConfig, PromptConfig
from ruplar.model.tokenizers import load_tokenizer


def opened(name, weights):
    return load_backbone(BackboneConfig(name=name, weights=weights, lora=None), PromptConfig())


def test_layers_and_shared_rows_are_those_of_the_embedded_model():
    torch.manual_seed(0)
    borrowed, lender = opened("embedded-logic", "borrowed"), opened("embedded", "pretrained")
    layers = borrowed.plain_model.model.layers.state_dict()
    for name, weight in lender.plain_model.model.layers.state_dict().items():
        assert torch.equal(layers[name], weight)
    assert torch.equal(borrowed.plain_model.model.norm.weight, lender.plain_model.model.norm.weight)
    new, old = borrowed.embedding_weight.detach(), lender.embedding_weight.detach()
    ours, theirs = (load_tokenizer(name).get_vocab() for name in ("embedded-logic", "embedded"))
    known = [word for word in ours if word in theirs]
    assert "<<" in known and "terpus" not in known
    assert all(torch.equal(new[ours[word]], old[theirs[word]]) for word in known)
    fresh = new[[i for word, i in ours.items() if word not in theirs]]
    # a hundred rows of 256: the spread of the known ones within a tenth
    assert len(fresh) > 50 and 0.9 < float(fresh.std() / old.std()) < 1.1
    assert borrowed.plain_model.get_output_embeddings().weight is borrowed.embedding_weight  # still tied


def test_only_a_domains_vocabulary_borrows():
    with pytest.raises(UserError, match="embedded-dates and embedded-logic"):
        opened("embedded", "borrowed")
    with pytest.raises(ValueError, match="borrowed and init exclude each other"):
        BackboneConfig(name="embedded-logic", weights="borrowed", init="runs/any")


def test_native_norms_compute_the_same_in_both_directions():
    plain, native = (opened("embedded", "pretrained").plain_model.model for _ in range(2))
    assert backbone.use_native_norms(native)
    found = []
    for model in (plain, native):
        embeds = model.embed_tokens(torch.arange(6)[None]).detach().requires_grad_()
        out = model(inputs_embeds=embeds).last_hidden_state
        out.square().sum().backward()
        found.append((out, embeds.grad))
    for one, two in zip(*found, strict=True):
        torch.testing.assert_close(one, two)


@pytest.mark.slow
def test_liger_kernels_replace_the_parts_of_one_model_only(monkeypatch):
    pytest.importorskip("liger_kernel")
    other, ids = opened("embedded", "pretrained").plain_model, torch.arange(6)[None]
    before = other(input_ids=ids).logits
    changed = opened("embedded", "pretrained")
    with monkeypatch.context() as patch:
        patch.setattr(Backbone, "device", torch.device("cuda"))
        changed.use_liger_kernels()
    layer = changed.plain_model.model.layers[0]
    assert "liger_kernel" in layer.mlp.forward.__func__.__module__
    norms = (layer.input_layernorm, changed.plain_model.model.norm)
    assert all(norm.forward.func is backbone._rms_norm for norm in norms)
    assert torch.equal(other(input_ids=ids).logits, before)
    # a model made later
    assert torch.equal(opened("embedded", "pretrained").plain_model(input_ids=ids).logits, before)
