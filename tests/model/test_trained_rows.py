"""A head with a few trained rows: logits and gradients are those of PEFT, with padding columns that never count."""

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from ruplar import objective
from ruplar.model.load import attach_markers
from ruplar.model.lora import add_lora, unadapted
from ruplar.model.settings import LoraSettings, PromptConfig
from ruplar.model.tokenizers import load_tokenizer
from ruplar.model.trained_rows import trained_rows


@pytest.fixture(params=[True, False], ids=["tied", "untied"])
def backbone(request):
    tokenizer = load_tokenizer("embedded")
    tokenizer.add_tokens(["<a>", "<b>", "<c>"])
    shape = AutoConfig.for_model(
        "llama", vocab_size=len(tokenizer), hidden_size=16, intermediate_size=32, num_hidden_layers=1,
        num_attention_heads=2, num_key_value_heads=1, tie_word_embeddings=request.param,
    )  # fmt: skip
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(shape)
    numbers = tokenizer.convert_tokens_to_ids(["<a>", "<b>", "<c>"])
    found = attach_markers(model, tokenizer, PromptConfig(template="plain"), numbers)
    add_lora(found, LoraSettings(dropout=0.0))
    rows = trained_rows(found.head)
    assert rows is not None and len(found.embedding_weight) % 64
    with torch.no_grad():
        rows.trainable_tokens_delta["default"].normal_()
    return found


def test_logits_and_gradients_are_those_of_peft(backbone):
    size = len(backbone.embedding_weight)
    hidden = torch.randn(7, 16, requires_grad=True)
    trained = trained_rows(backbone.head).trainable_tokens_delta["default"]
    ids = torch.randint(size, (7, 3))
    # trained rows are targets too
    ids[:3, 0] = torch.as_tensor(trained_rows(backbone.head).token_indices["default"])[:3]
    found = []
    for head in (backbone.head, backbone.project):
        read = objective.read(head, hidden, ids)
        loss = (read.picked * torch.linspace(0.1, 1, 3)).sum()
        found.append((read.picked, read.entropy, *torch.autograd.grad(loss, (hidden, trained))))
        assert read.top.max() < size
    for peft, ours in zip(*found, strict=True):
        torch.testing.assert_close(ours, peft)
    assert backbone.project(hidden).shape[1] % 64 == 0 and backbone.logits(hidden).shape == (7, size)


def test_without_gradients_or_without_the_adapter_the_head_itself_is_used(backbone):
    hidden = torch.randn(2, 16)
    with torch.no_grad():
        assert backbone.project(hidden).shape[1] == len(backbone.embedding_weight)
    with unadapted(backbone, "test"):
        assert trained_rows(backbone.head) is None
        torch.testing.assert_close(backbone.project(hidden), backbone.head(hidden))
