"""CoLaR: groups of tokens in one latent, the speed in the prompt, one model for every speed."""

import math

import pytest
import torch
from overfitting import problems, tools_of

from ruplar import plugins
from ruplar.data.collate import collate
from ruplar.methods._gaussian import latent_loss, summed
from ruplar.model.forward import embed
from ruplar.types import Example, SampleContext

EXAMPLE = Example("3+4, doubled?", ("3+4=7", "7*2=14"), "14")
CHAIN = "<<3+4=7>> <<7*2=14>>"


def colar(**settings):
    return plugins.make("methods", "colar", settings)


def context_at(method, speed: int) -> SampleContext:
    """A sample context that draws this speed."""
    return next(v for v in (SampleContext(epoch, 0) for epoch in range(99)) if method._speed(v) == speed)


def test_the_chain_is_cut_into_groups_of_the_drawn_speed(backbone):
    method, tools = colar(), tools_of(backbone)
    chain = tools.encode(CHAIN)
    assert len(chain) == 14
    # 14 tokens at speeds 1 to 5: 14, 7, 5, 4, 3 latents, the last group shorter where it does not come out even
    for speed, count in zip(range(1, 6), (14, 7, 5, 4, 3), strict=True):
        item = method.encode(EXAMPLE, tools, context_at(method, speed))
        groups = [chain[i : i + speed] for i in range(0, 14, speed)]
        assert len(item.latent_at) == len(groups) == count
        for prior, group in zip(item.priors, groups, strict=True):
            assert set(prior.ids.tolist()) == set(group)
            assert prior.probs.sum() == pytest.approx(math.sqrt(len(group)))
        for at, group in zip(item.latent_at, groups, strict=True):
            assert item.labels[at] in group
        assert item.mark_at == [item.latent_at[-1] + 1] and item.ids[item.mark_at[0]] == backbone.end_think_id


def test_a_group_is_the_sum_of_its_tokens_over_the_root_of_their_number(backbone):
    prior = summed([5, 9, 5, 7])
    assert dict(zip(prior.ids.tolist(), prior.probs.tolist(), strict=True)) == {5: 1.0, 9: 0.5, 7: 0.5}


def test_speeds_are_uniform_and_tokens_drawn_for_every_sample(backbone):
    method, tools = colar(), tools_of(backbone)
    drawn = [method._speed(SampleContext(0, row)) for row in range(1000)]
    assert all(150 < drawn.count(speed) < 250 for speed in range(1, 6))
    labels = {tuple(method.encode(EXAMPLE, tools, SampleContext(epoch, 3)).labels) for epoch in range(20)}
    assert len(labels) > 10 and method.dynamic
    assert (
        method.encode(EXAMPLE, tools, SampleContext(4, 3)).labels
        == method.encode(EXAMPLE, tools, SampleContext(4, 3)).labels
    )


def test_training_and_inference_state_the_speed_the_same_way(backbone):
    method, tools = colar(speed=2), tools_of(backbone)
    item = method.encode(EXAMPLE, tools, context_at(method, 2))
    asked = backbone.prompt(method.question(EXAMPLE.question))
    assert tuple(item.ids[: len(asked.ids)]) == asked.ids
    assert method.question("How many?") == "How many? (Thinking speed: 2)"
    assert colar().question("How many?") == "How many? (Thinking speed: 5)"


def test_latent_losses_by_hand():
    mean, log_std, target = (
        torch.tensor([[1.0, 2.0]]),
        torch.log(torch.tensor([[0.5, 1.0]])),
        torch.tensor([[1.0, 0.0]]),
    )
    # squared errors 0 and 4, variances 0.25 and 1
    assert latent_loss(mean, log_std, target, "mse").item() == pytest.approx((0 + 4 + 0.25 + 1) / 2)
    torch.manual_seed(0)
    many = latent_loss(mean.expand(20_000, 2), log_std.expand(20_000, 2), target.expand(20_000, 2), "sampled_mse")
    assert many.mean().item() == pytest.approx(5.25 / 2, abs=0.06)
    expected = -sum(torch.distributions.Normal(mean, log_std.exp()).log_prob(target)[0].tolist()) / 2
    assert latent_loss(mean, log_std, target, "nll").item() == pytest.approx(expected)


def test_the_loss_of_a_batch_is_the_sum_over_its_rows(backbone):
    method, tools = colar(latent_loss="nll"), tools_of(backbone)
    method.attach(backbone)
    items = [method.encode(e, tools, SampleContext(0, row)) for row, e in enumerate(problems(4))]
    whole = collate(items, backbone.pad_id)
    expected = {name: value.item() for name, value in method.loss(backbone, whole).parts.items()}
    assert set(expected) == {"answer", "thought", "latent"}
    summed_up = dict.fromkeys(expected, 0.0)
    for item in items:
        batch = collate([item], backbone.pad_id)
        batch.totals = whole.totals
        for name, value in method.loss(backbone, batch).parts.items():
            summed_up[name] += value.item()
    assert summed_up == pytest.approx(expected, rel=1e-4)


def test_the_head_also_predicts_the_end_marker(backbone):
    method, tools = colar(), tools_of(backbone)
    method.attach(backbone)
    batch = collate([method.encode(EXAMPLE, tools, SampleContext(0, 0))], backbone.pad_id)
    with torch.no_grad():  # a head that is certain of 0 has the mean square of its targets as loss
        for layer, bias in ((method.head.mean, 0.0), (method.head.log_std, -30.0)):
            layer.weight.zero_()
            layer.bias.fill_(bias)
    target_at = [*batch.latent_at.tolist(), batch.latent_at[-1].item() + 1]
    targets = embed(backbone, batch)[0, target_at] / method.config.sigma
    found = method.loss(backbone, batch).parts["latent"].item()
    assert found == pytest.approx(targets.square().mean().item(), rel=1e-4)
