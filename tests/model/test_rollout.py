"""Latents made one from another: the cached passes give what whole sequences give, in values and in gradients."""

import pytest
import torch
from toys import LORA

from ruplar.data.collate import collate
from ruplar.errors import UserError
from ruplar.model.rollout import Projector, roll_out
from ruplar.types import Item


@pytest.fixture
def backbone(tiny_backbone):
    """Family → a random model with a LoRA adapter whose weights are at random too."""

    def make(family="llama"):
        made = tiny_backbone(family, lora=LORA)
        made.model.eval()
        return made

    return make


def item(question: int, latents: int, tail: int, seed: int) -> Item:
    """So many tokens, latents and tokens again; the last `tail` - 1 are labels."""
    drawn = torch.randint(5, 200, (question + latents + tail,), generator=torch.Generator().manual_seed(seed)).tolist()
    labels = [-100] * (question + latents + 1) + drawn[question + latents + 1 :]
    return Item(drawn, labels, list(range(question, question + latents)), mark_at=[question + latents])


RAGGED = [item(5, 3, 4, 1), item(9, 3, 2, 2), item(2, 1, 6, 3), item(4, 0, 3, 4), item(12, 2, 3, 5)]


def by_whole_sequences(backbone, one: Item, project=None):
    """One row, no cache, no padding: the sequence so far is run anew for every latent → hidden [S, D], latents, layers."""
    ids = torch.tensor([one.ids])
    inputs = list(backbone.embedding(ids)[0])
    places = torch.arange(len(one.ids))[None]
    made = []
    for at in one.latent_at:
        hidden, _ = backbone.trunk(torch.stack(inputs[:at])[None], None, places[:, :at])
        inputs[at] = hidden[0, -1] if project is None else project(hidden[0, -1])
        made.append(inputs[at])
    hidden, layers = backbone.trunk(torch.stack(inputs)[None], None, places, all_layers=True)
    return hidden[0], made, [layer[0] for layer in layers]


@pytest.mark.parametrize("family, projected", [("llama", True), ("qwen2", False), ("qwen3", True), ("gpt2", False)])
def test_a_ragged_batch_equals_its_rows_at_batch_size_1_without_cache(backbone, family, projected):
    made = backbone(family)
    project = Projector(32) if projected else None
    batch = collate(RAGGED, made.pad_id)
    with torch.no_grad():
        found = roll_out(made, batch, project, all_layers=True)
        for row, one in enumerate(RAGGED):
            hidden, latents, layers = by_whole_sequences(made, one, project)
            places = row * batch.ids.shape[1] + torch.arange(len(one.ids))
            torch.testing.assert_close(found.at(places), hidden, atol=1e-5, rtol=1e-4)
            for i, latent in enumerate(reversed(latents)):
                torch.testing.assert_close(found.latents[row, -1 - i], latent, atol=1e-5, rtol=1e-4)
            if not latents:  # its mark is read in an earlier pass
                continue
            mark = row * batch.ids.shape[1] + torch.tensor(one.mark_at)
            wanted = torch.stack([layer[one.mark_at] for layer in layers])
            torch.testing.assert_close(found.layers_at(mark), wanted, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_gradient_flows_through_the_whole_chain_of_latents(backbone, family):
    made, project = backbone(family), Projector(32).double()
    made.model.double()  # rounding grows along the chain; what is compared here is the gradient's way
    weights = {n: p for n, p in (*made.model.named_parameters(), *project.named_parameters()) if p.requires_grad}

    def gradient(total):
        return dict(zip(weights, torch.autograd.grad(total, list(weights.values())), strict=True))

    batch = collate(RAGGED, made.pad_id)
    rolled = gradient(roll_out(made, batch, project).at(batch.label_at).square().sum())
    total = 0.0
    for one in RAGGED:
        hidden, _, _ = by_whole_sequences(made, one, project)
        labels = [i - 1 for i, label in enumerate(one.labels) if label != -100]
        total = total + hidden[labels].square().sum()
    alone = gradient(total)
    for name in weights:
        torch.testing.assert_close(rolled[name], alone[name], atol=1e-8, rtol=1e-6, msg=name)
    assert rolled["layers.1.weight"].abs().sum() > 0


def test_n_latents_take_n_plus_one_passes_whatever_the_rows(backbone, monkeypatch):
    made = backbone()
    calls = []
    plain = type(made).trunk
    monkeypatch.setattr(
        type(made), "trunk", lambda self, embeds, *rest: calls.append(embeds.shape[:2]) or plain(self, embeds, *rest)
    )
    roll_out(made, collate([item(3 + i % 7, 6, 3, i) for i in range(40)], made.pad_id))
    # the longest question takes 9; five latents one by one; the last with what follows
    assert [tuple(shape) for shape in calls] == [(40, 9), *[(40, 1)] * 5, (40, 4)]


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_nobody_is_shown_nothing(backbone, family, monkeypatch):
    """Some kernels make no number of a mask of nothing, and through the cache it would reach every row of the batch."""
    made, plain, empty = backbone(family), torch.nn.functional.scaled_dot_product_attention, []

    def strict(query, key, value, attn_mask=None, **rest):
        assert attn_mask is None or attn_mask.dtype == torch.bool
        out = plain(query, key, value, attn_mask=attn_mask, **rest)
        if attn_mask is None:
            return out
        blind = ~attn_mask.any(-1, keepdim=True)
        empty.append(int(blind.sum()))
        return out.masked_fill(blind, float("nan"))

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", strict)
    batch = collate(RAGGED, made.pad_id)
    roll_out(made, batch).at(batch.label_at).square().sum().backward()
    assert empty and not any(empty)
    assert all(w.grad.isfinite().all() for w in made.model.parameters() if w.grad is not None)


def test_a_batch_without_any_latent_is_one_pass(backbone):
    made = backbone()
    batch = collate([item(4, 0, 3, 1), item(6, 0, 2, 2)], made.pad_id)
    found = roll_out(made, batch)
    assert found.latents.shape == (2, 0, 32) and found.tail == 0
    hidden, _, _ = by_whole_sequences(made, item(6, 0, 2, 2))
    torch.testing.assert_close(found.at(8 + torch.arange(8)), hidden, atol=1e-5, rtol=1e-4)


def test_gradient_checkpointing_is_refused_since_it_would_drop_the_cache(backbone):
    made = backbone()
    made.plain_model.gradient_checkpointing_enable()
    made.model.train()
    with pytest.raises(UserError, match="gradient_checkpointing.*recurrently"):
        roll_out(made, collate(RAGGED, made.pad_id))


def test_the_projector_is_seeded_and_leaves_the_global_random_state():
    torch.manual_seed(7)
    before = torch.rand(3)
    torch.manual_seed(7)
    first, second = Projector(8), Projector(8)
    assert torch.equal(torch.rand(3), before)
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))
    out = first(torch.randn(5, 8))
    # the LayerNorm comes last: mean 0 and variance 1 over the features
    torch.testing.assert_close(out.mean(-1), torch.zeros(5), atol=1e-5, rtol=0)
    torch.testing.assert_close(out.var(-1, unbiased=False), torch.ones(5), atol=1e-2, rtol=0)
