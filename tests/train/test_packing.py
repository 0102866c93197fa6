"""Several sequences in one row: the same loss and gradient as one row each, and none sees another."""

from functools import partial

import pytest
import torch
from toys import encoder_of

from ruplar import plugins
from ruplar.data.collate import collate
from ruplar.errors import UserError
from ruplar.model.lora import add_lora
from ruplar.model.settings import LoraSettings
from ruplar.model.tokenizers import load_tokenizer
from ruplar.model.varlen import use_varlen, varlen_attention
from ruplar.problems.word_problems import generate
from ruplar.types import Item, SampleContext

FAMILIES = ["llama", "qwen2", "gpt2"]
WORDS = ("dozen", "fortnight")


@pytest.fixture
def backbone(tiny_backbone):
    """Family → a random model with the packaged tokenizer."""
    return partial(tiny_backbone, tokenizer=load_tokenizer("embedded"))


def items_of(backbone, method, count=6):
    tools, examples = encoder_of(backbone), generate(count, 7, steps=(1, 4))
    return [method.encode(example, tools, SampleContext(0, i)) for i, example in enumerate(examples)]


def loss_and_gradient(backbone, method, batch):
    backbone.model.zero_grad()
    loss = method.loss(backbone, batch)
    loss.total.backward()
    gradient = {name: p.grad.clone() for name, p in backbone.model.named_parameters() if p.grad is not None}
    return {name: part.item() for name, part in loss.parts.items()}, gradient


@pytest.mark.parametrize(
    ("family", "name"), [("llama", "ruplar"), ("qwen2", "ruplar"), ("gpt2", "ruplar"), ("llama", "cot")]
)
def test_packed_rows_have_the_loss_and_gradient_of_padded_ones(backbone, family, name):
    made, method = backbone(family), plugins.make("methods", name)
    items = items_of(made, method)
    longest = max(len(item.ids) for item in items)
    padded, packed = collate(items, made.pad_id), collate(items, made.pad_id, 3 * longest)
    assert len(padded.ids) == 6 and len(packed.ids) <= 3 and packed.packed and not padded.packed
    parts, gradient = loss_and_gradient(made, method, padded)
    packed_parts, packed_gradient = loss_and_gradient(made, method, packed)
    assert packed_parts == pytest.approx(parts, rel=1e-5)
    assert gradient.keys() == packed_gradient.keys() and len(gradient) > 10
    for weight in gradient:
        torch.testing.assert_close(packed_gradient[weight], gradient[weight], atol=2e-5, rtol=1e-3, msg=weight)


@pytest.mark.parametrize("family", ["llama", "qwen2"])
def test_variable_length_attention_has_the_loss_and_gradient_of_the_mask(backbone, family):
    made, method = backbone(family), plugins.make("methods", "ruplar")
    batch = collate(items_of(made, method), made.pad_id, 160)
    expected, gradient = loss_and_gradient(made, method, batch)
    made.varlen = use_varlen(made.plain_model, torch.bfloat16)
    assert made.varlen and len(batch.segments) > batch.ids.shape[0] + 1
    parts, found = loss_and_gradient(made, method, batch)
    assert parts == pytest.approx(expected, rel=1e-5)
    for name, slope in gradient.items():
        torch.testing.assert_close(found[name], slope, rtol=1e-4, atol=1e-6, msg=name)


def test_variable_length_attention_needs_half_precision(backbone):
    made = backbone("llama")
    assert not use_varlen(made.plain_model, torch.float32)
    query, value = torch.randn(1, 2, 5, 4), torch.randn(1, 2, 5, 4).bfloat16()  # as under autocast
    found, _ = varlen_attention(torch.nn.Module(), query, query, value, None, None, torch.tensor([0, 2, 5]), 3)
    assert found.dtype == torch.bfloat16
    assert made.plain_model.config._attn_implementation == "sdpa"


def test_an_item_longer_than_the_width_widens_the_rows_and_the_others_still_share_them():
    items = [Item(ids, [-100] * len(ids)) for ids in ([1, 2], [3, 4, 5, 6, 7], [8, 9])]
    batch = collate(items, 0, 4)
    assert batch.ids.tolist() == [[3, 4, 5, 6, 7], [1, 2, 8, 9, 0]] and batch.packed


@pytest.mark.parametrize(("family", "tied"), [("llama", True), ("llama", False), ("gpt2", True)])
def test_only_the_embedding_rows_of_the_named_words_move(backbone, family, tied):
    made, method = backbone(family, tied=tied), plugins.make("methods", "ruplar")
    add_lora(made, LoraSettings(rank=2, alpha=4, dropout=0.0, words=WORDS))
    ids = {made.tokenizer.encode(f" {word}", add_special_tokens=False)[0] for word in WORDS}
    every = torch.arange(2304)

    def rows():
        with torch.no_grad():  # the head's rows are read off as its answers to unit vectors
            return made.embedding(every).clone(), made.logits(torch.eye(32)).T.clone()

    before = rows()
    method.loss(made, collate(items_of(made, method), made.pad_id)).total.backward()
    torch.optim.SGD([p for p in made.model.parameters() if p.requires_grad], lr=0.5).step()
    embedding, head = (
        (now != then).any(-1).nonzero().flatten().tolist() for now, then in zip(rows(), before, strict=True)
    )
    # the problems name neither word, so untied only the softmax reaches their rows, in the head
    assert set(head) == ids and set(embedding) == (ids if tied else set())


def test_a_word_of_several_tokens_is_refused_with_its_count(backbone):
    made = backbone()
    count = len(made.tokenizer.encode(" xylophones", add_special_tokens=False))
    assert count > 1
    with pytest.raises(UserError, match=f"backbone.lora.words: .*'xylophones' is {count}") as caught:
        add_lora(made, LoraSettings(words=("dozen", "xylophones")))
    assert "'dozen'" not in str(caught.value)
