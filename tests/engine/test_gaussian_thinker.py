"""Latents from the Gaussian head: mean, samples independent of the batch, and the halt."""

import math
from dataclasses import replace

import pytest
import torch

from ruplar.engine.gaussian import GaussianThinker, LatentHead, log_density, normal
from ruplar.engine.sampling import Decoding, Noise

DRAWN = Decoding(max_answer_tokens=4, noise=1.0, seed=3)


@pytest.fixture
def thinker():
    return GaussianThinker(LatentHead(32, 48).eval(), 0.2, end_think_id=259, cap=6)


def test_the_head_has_the_published_layers_and_deterministic_weights():
    head = LatentHead(2048, 2048)
    # Linear(d, 2048), Linear(2048, 2048), LayerNorm, and two Linear(2048, d): 16.8 million
    assert sum(w.numel() for w in head.parameters()) == 4 * (2048 * 2048 + 2048) + 2 * 2048
    torch.manual_seed(7)
    again = LatentHead(32, 16)
    torch.manual_seed(8)
    assert all(torch.equal(a, b) for a, b in zip(again.parameters(), LatentHead(32, 16).parameters(), strict=True))


def test_the_log_density_is_a_gaussians_averaged_over_the_width():
    mean, log_std = torch.tensor([[1.0, -1.0]]), torch.tensor([[0.0, math.log(2)]])
    # at the mean of the first, one standard deviation from that of the second
    expected = (-0.5 * math.log(2 * math.pi) + (-0.5 * math.log(2 * math.pi) - math.log(2) - 0.5)) / 2
    assert log_density(mean, log_std, torch.tensor([[1.0, 1.0]])).item() == pytest.approx(expected)


def test_draws_are_standard_normal_and_differ_by_stream_and_latent():
    stream = Noise.of([DRAWN, DRAWN], [0, 1]).stream
    numbers = normal(stream, torch.tensor([0, 0]), 20_000)
    assert numbers.isfinite().all()
    assert numbers.mean(1).tolist() == pytest.approx([0, 0], abs=0.03)
    assert numbers.std(1).tolist() == pytest.approx([1, 1], abs=0.03)
    assert not torch.equal(numbers[0], numbers[1])
    assert not torch.equal(numbers, normal(stream, torch.tensor([1, 1]), 20_000))


def test_with_noise_the_latent_is_a_sample_of_its_gaussian(thinker):
    hidden, made = torch.randn(2, 32), torch.tensor([0, 4])
    noise = Noise.of([DRAWN, replace(DRAWN, noise=0.5)], [5, 6])
    mean, log_std = thinker.head(hidden)
    drawn = normal(noise.stream, made, 32)
    expected = (mean + torch.tensor([[1.0], [0.5]]) * log_std.exp() * drawn) * 0.2
    torch.testing.assert_close(thinker.next(torch.zeros(2, 260), hidden, made, noise).embeds, expected)


def test_a_thought_has_at_least_one_latent_and_halts_by_argmax(thinker):
    logits = torch.zeros(3, 260)
    logits[:2, thinker.end_think_id] = 5.0
    halt = thinker.next(logits, torch.randn(3, 32), torch.tensor([0, 1, 1])).halt
    assert halt.tolist() == [False, True, False]


def test_a_sampled_halt_is_as_frequent_as_its_probability(thinker):
    rows = 4000
    logits = torch.zeros(rows, 4)
    logits[:, 1] = math.log(2)  # 2 of 5
    thinker = replace(thinker, end_think_id=1, halt="sample")
    hidden, made = torch.randn(rows, 32), torch.ones(rows, dtype=torch.long)
    halt = thinker.next(logits, hidden, made, Noise.of([DRAWN] * rows, range(rows))).halt
    assert halt.float().mean().item() == pytest.approx(0.4, abs=0.03)
    assert thinker.next(logits, hidden, made).halt.all(), "without noise the most likely token decides"
