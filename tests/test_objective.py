r"""Each loss by hand, and all of them against a plain implementation: dense priors, full logits, one sample at a time.

| loss | read at (0-based; latents at s..e-1) | target | averaged |
|---|---|---|---|
| prior | logits at s-1 .. e-2 | pi_1 .. pi_N, V-sized | over a sample's N, then over samples that think |
| answer | logits at e-1 .. end-1 | `</think>`, the answer, the end token | over all labels |
| align | hidden at q and at s .. e-1 | KL(softmax(h_q) ‖ softmax(h_z)) | as prior |
"""

import math

import pytest
import torch
import torch.nn.functional as F
from toys import encoder_of

from ruplar import objective, plugins
from ruplar.data.collate import collate
from ruplar.model.settings import PromptConfig
from ruplar.types import Example, SampleContext

EXAMPLES = [
    Example("Tom has 3 bags of 4 apples and eats 2. How many are left?", ("3*4=12", "12-2=10"), "10"),
    Example("How old is Ann, who is 5?", (), "5"),  # N = 0
    Example("What is 20*1.20, less 4, halved, as a number?", ("20*1.20=24", "24-4=20", "20/2=10"), "10"),
    Example("1+1?", ("1+1=2",), "2"),
]


# by hand


def test_reading_gives_log_probabilities_the_likeliest_token_and_the_entropy():
    logits = torch.tensor([[0.5, 0.25, 0.125, 0.125]]).log() - 7.0
    read = objective.read(lambda hidden: hidden, logits, torch.tensor([[1, 3]]))
    assert read.picked[0].tolist() == pytest.approx([math.log(0.25), math.log(0.125)])
    assert read.top.tolist() == [0] and read.entropy.item() == pytest.approx(1.75 * math.log(2), abs=1e-5)


def test_the_focus_keeps_tokens_strictly_above_the_threshold_and_the_first_of_equals():
    probs = torch.tensor([[0.5, 0.24, 0.24, 0.02, 0.0]])
    assert objective.focus(probs, 0.02, None).tolist() == [[True, True, True, False, False]]
    assert objective.focus(probs, 0.0, None).tolist() == [[True, True, True, True, False]]
    assert objective.focus(probs, 0.0, 2).tolist() == [[True, True, False, False, False]]
    assert objective.focus(probs, 0.01, 9).tolist() == [[True, True, True, True, False]]


# against the plain implementation


@pytest.fixture
def backbone(request, tiny_backbone):
    family = getattr(request, "param", "llama")
    return tiny_backbone(family, prompt=PromptConfig(instruction=""), tied=family == "gpt2")


def items_of(backbone, method):
    encoder = encoder_of(backbone)
    return [method.encode(example, encoder, SampleContext(0, row)) for row, example in enumerate(EXAMPLES)]


def plain_losses(backbone, items, delta=0.0, normalize=False) -> dict[str, torch.Tensor]:
    """The table at the top of this file, one sample at a time."""
    table = backbone.embedding_weight
    ce, kl, sem, labels, thinking = 0.0, 0.0, 0.0, 0, 0
    for item in items:
        n = len(item.latent_at)
        priors = torch.zeros(n, len(table))
        for row, prior in enumerate(item.priors):
            priors[row, prior.ids] = torch.from_numpy(prior.probs)
        embeds = table[torch.tensor(item.ids)]
        if n:
            s, e = item.latent_at[0], item.latent_at[-1] + 1
            embeds = torch.cat([embeds[:s], priors @ table, embeds[e:]])
        out = backbone.plain_model(inputs_embeds=embeds[None], output_hidden_states=True)
        log_q, hidden = out.logits[0].log_softmax(-1), out.hidden_states[-1][0]
        for at, label in enumerate(item.labels):
            if label != -100:
                ce, labels = ce - log_q[at - 1, label], labels + 1
        if not n:
            continue
        thinking += 1
        kept = priors > delta
        terms = torch.where(kept, priors * (priors.clamp_min(1e-30).log() - log_q[s - 1 : e - 1]), torch.zeros(()))
        kl = kl + terms.sum(-1).mean()
        q, z = hidden[item.question_at].expand(n, -1), hidden[s:e]
        if normalize:
            q, z = ((h - h.mean(-1, keepdim=True)) / h.std(-1, correction=0, keepdim=True) for h in (q, z))
        sem = sem + F.kl_div(z.log_softmax(-1), q.log_softmax(-1), log_target=True, reduction="none").sum(-1).mean()
    return {"answer": ce / labels, "prior": kl / max(thinking, 1), "align": sem / max(thinking, 1)}


def gradients(backbone, value) -> dict[str, torch.Tensor]:
    backbone.model.zero_grad()
    value.backward(retain_graph=True)
    return {name: w.grad.clone() for name, w in backbone.model.named_parameters() if w.grad is not None}


def assert_same_loss(backbone, found, expected) -> None:
    """Value and gradient of every part."""
    assert found.keys() <= expected.keys()
    for name, part in found.items():
        torch.testing.assert_close(part, expected[name], atol=1e-5, rtol=1e-4)
        ours, theirs = gradients(backbone, part), gradients(backbone, expected[name])
        assert max(g.abs().max() for g in ours.values()) > 1e-4, f"{name} should move something"
        for weight, grad in ours.items():
            torch.testing.assert_close(
                grad, theirs.get(weight, torch.zeros_like(grad)), atol=2e-5, rtol=1e-3, msg=f"{name}: {weight}"
            )


@pytest.mark.parametrize("backbone", ["llama", "gpt2"], indirect=True)
@pytest.mark.parametrize("how", [{}, {"normalize": True}, {"delta": 0.05}], ids=["printed", "normalised", "focused"])
def test_ruplar_is_the_plain_implementation_on_a_padded_batch(backbone, how):
    settings = {"focus_threshold": how.get("delta", 0.0), "align_normalize": how.get("normalize", False)}
    method = plugins.make("methods", "ruplar", settings)
    items = items_of(backbone, method)
    assert sorted(len(item.latent_at) for item in items) == [0, 1, 2, 3]
    batch = collate(items, backbone.pad_id)
    assert not batch.mask.all(), "some rows should be padded"
    loss = method.loss(backbone, batch)
    assert list(loss.parts) == ["answer", "prior", "align"]
    assert_same_loss(backbone, loss.parts, plain_losses(backbone, items, **how))
    torch.testing.assert_close(loss.total, sum(loss.parts.values()))


@pytest.mark.parametrize("name", ["cot", "no_cot"])
def test_text_methods_are_plain_cross_entropy(backbone, name):
    method = plugins.make("methods", name)
    items = items_of(backbone, method)
    loss = method.loss(backbone, collate(items, backbone.pad_id))
    assert list(loss.parts) == ["answer"]
    assert_same_loss(backbone, loss.parts, plain_losses(backbone, items))


def test_weights_multiply_their_parts_and_a_zero_alignment_is_left_out(backbone):
    plain = plugins.make("methods", "ruplar")
    batch = collate(items_of(backbone, plain), backbone.pad_id)
    one = plain.loss(backbone, batch).parts
    weights = {"answer_weight": 2, "prior_weight": 0.5, "align_weight": 0}
    two = plugins.make("methods", "ruplar", weights).loss(backbone, batch)
    assert list(two.parts) == ["answer", "prior"]
    torch.testing.assert_close(two.parts["answer"], 2 * one["answer"])
    torch.testing.assert_close(two.parts["prior"], 0.5 * one["prior"])


def test_a_batch_without_any_latent_has_an_answer_and_nothing_else(backbone):
    method = plugins.make("methods", "ruplar")
    items = [item for item in items_of(backbone, method) if not item.latent_at]
    loss = method.loss(backbone, collate(items, backbone.pad_id))
    assert loss.parts["prior"].item() == loss.parts["align"].item() == 0 < loss.parts["answer"].item()
    loss.total.backward()
    assert all(w.grad.isfinite().all() for w in backbone.model.parameters() if w.grad is not None)


def test_what_is_watched_counts_halts_latents_and_right_labels(backbone):
    method = plugins.make("methods", "ruplar")
    items = items_of(backbone, method)
    watch = method.loss(backbone, collate(items, backbone.pad_id)).watch
    labels = sum(x != -100 for item in items for x in item.labels)
    # six latents to go on after, four ends to halt at
    assert (watch["latents"], watch["halt_seen"], watch["labels"]) == (6, 10, labels)
    assert 0 <= watch["halt_right"] <= 10 and 0 <= watch["label_right"] <= labels
