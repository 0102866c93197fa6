"""Merging the adapter changes no logit, in memory or after saving and reloading with transformers."""

import pytest
import torch
from toys import LORA, with_random_adapter
from transformers import AutoModelForCausalLM

from ruplar.model.lora import merged

IDS = torch.tensor([[5, 17, 200, 258, 42, 259, 7, 257]])  # 258 and 259 are the added markers, where they are added


def logits_of(backbone) -> torch.Tensor:
    with torch.inference_mode():
        hidden, _ = backbone.trunk(backbone.embedding(IDS), None, torch.arange(IDS.shape[1])[None])
        return backbone.logits(hidden)[0]


def adapted(backbone, embedding: bool):
    """The backbone with an adapter whose trained weights are all random."""
    with_random_adapter(backbone, LORA.model_copy(update={"embedding": embedding})).model.eval()
    return backbone


@pytest.mark.parametrize("embedding", [False, True], ids=["linear", "linear+embedding"])
@pytest.mark.parametrize("added", [True, False], ids=["markers added", "markers exist"])
@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_merging_changes_no_logit(family, tied, added, embedding, tiny_backbone, byte_tokenizer, tmp_path):
    if not added:
        byte_tokenizer.add_tokens(["<think>", "</think>"], special_tokens=True)
    plain = tiny_backbone(family, tied=tied)
    assert bool(plain.added) == added
    before = logits_of(plain)
    backbone = adapted(plain, embedding)
    wanted = logits_of(backbone)
    assert (wanted - before).abs().max() > 0.1, "the adapter should do something"

    whole = merged(backbone)
    with torch.inference_mode():
        torch.testing.assert_close(whole(input_ids=IDS).logits[0], wanted, atol=1e-4, rtol=1e-4)
    whole.save_pretrained(tmp_path)
    again = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32).eval()
    with torch.inference_mode():
        torch.testing.assert_close(again(input_ids=IDS).logits[0], wanted, atol=1e-4, rtol=1e-4)
    assert not any("lora" in name for name in again.state_dict())


def test_a_head_stays_tied_unless_the_embedding_has_an_adapter(tiny_backbone):
    for embedding in (False, True):
        whole = merged(adapted(tiny_backbone(), embedding))
        shared = whole.get_input_embeddings().weight.data_ptr() == whole.get_output_embeddings().weight.data_ptr()
        assert shared == whole.config.tie_word_embeddings == (not embedding)


def test_merging_without_an_adapter_returns_the_model(tiny_backbone):
    backbone = tiny_backbone()
    assert merged(backbone) is backbone.model


def test_an_adapter_trains_only_the_rows_of_added_markers(tiny_backbone):
    backbone = tiny_backbone()
    before = backbone.embedding_weight.detach().clone()
    whole = merged(adapted(backbone, embedding=False))
    moved = (whole.get_input_embeddings().weight - before).abs().amax(-1) > 1e-6
    assert moved.nonzero().flatten().tolist() == sorted(backbone.added) == [258, 259]
