"""Noise: its effect on a distribution, independence of rows, and agreement of both engines."""

import math
from dataclasses import replace

import pytest
import torch
from engine_helpers import finish, many_prompts, soft, submit
from torch import nn
from toys import assert_same

from ruplar.engine.fast import FastEngine
from ruplar.engine.reference import generate
from ruplar.engine.sampling import Decoding, Noise, gumbel, noised, noised_tokens, uniform
from ruplar.engine.scheduler import Scheduler
from ruplar.engine.thinker import HiddenThinker, NoThinker, SoftThinker, TextThinker
from ruplar.errors import UserError

NOISY = Decoding(max_answer_tokens=6, noise=1.0, seed=4)
HALT = 3


def noise_of(count: int, **settings) -> Noise:
    found = Noise.of([Decoding(**({"noise": 1.0} | settings))] * count, range(count))
    assert found is not None
    return found


def zeros(count: int) -> torch.Tensor:
    return torch.zeros(count, dtype=torch.long)


def test_draws_are_uniform_and_gumbel():
    noise = noise_of(20)
    flat = uniform(noise.stream, zeros(20), 5000)
    assert flat.min() > 0 and flat.max() < 1
    # 100,000 draws: the mean of a uniform number is 1/2 ± 0.0009, its variance 1/12
    assert flat.mean().item() == pytest.approx(0.5, abs=0.004)
    assert flat.var().item() == pytest.approx(1 / 12, abs=0.002)
    draws = gumbel(noise.stream, zeros(20), 5000)
    # Euler's constant, and pi^2 / 6
    assert draws.mean().item() == pytest.approx(0.5772, abs=0.02)
    assert draws.var().item() == pytest.approx(math.pi**2 / 6, abs=0.06)


def test_rows_latents_and_tokens_draw_independently():
    noise = noise_of(2)
    first = uniform(noise.stream, zeros(2), 4000)
    later = uniform(noise.stream, zeros(2) + 1, 4000)
    pairs = torch.stack([first[0], first[1], later[0], first[0].roll(1)])
    # the correlation of 4,000 independent pairs is within 4 / sqrt(4000) of 0
    assert (torch.corrcoef(pairs) - torch.eye(4)).abs().max() < 0.064


def test_noise_does_not_change_the_halt():
    logits = torch.randn(50, 8, generator=torch.Generator().manual_seed(0))
    found = noised(logits, noise_of(50, noise=3.0), zeros(50), HALT)
    torch.testing.assert_close(found.softmax(-1)[:, HALT], logits.softmax(-1)[:, HALT])
    certain = torch.tensor([[-300.0, -300.0, -300.0, 0.0]])
    thinker = SoftThinker(nn.Embedding(4, 2), HALT)
    thought = thinker.next(certain, torch.zeros(1, 2), zeros(1), noise_of(1))
    assert thought.halt.item() and thought.embeds.isfinite().all()


def test_argmax_under_noise_of_scale_one_is_a_sample():
    probs = torch.tensor([0.5, 0.3, 0.2])
    tokens = noised_tokens(probs.log().expand(20_000, 3), noise_of(20_000), zeros(20_000))
    # three standard errors of a share of 0.5 among 20,000 are 0.0106
    assert (tokens.bincount(minlength=3) / 20_000).tolist() == pytest.approx(probs.tolist(), abs=0.0106)


@pytest.fixture
def thinker(backbone):
    return soft(backbone)


def several(prompts, samples):
    """Every prompt once per sample, and the keys of their random streams."""
    return [p for p in prompts for _ in range(samples)], [(k, s) for k in range(len(prompts)) for s in range(samples)]


def ids(rows):
    return [(row.answer_ids, row.thought_ids, row.latent_count) for row in rows]


def test_a_sample_does_not_depend_on_the_batch(backbone, thinker):
    prompts, keys = several(many_prompts(6), 4)
    together = generate(backbone, thinker, prompts, NOISY, keys, "embeds")
    alone = [generate(backbone, thinker, [p], NOISY, [k], "embeds")[0] for p, k in zip(prompts, keys, strict=True)]
    assert_same(together, alone)
    first = [row.latent_embeds[0] for row in together[:4] if row.latent_embeds]
    assert len(first) > 1 and not torch.allclose(first[0], first[1]), "samples of one question differ"
    other = generate(backbone, thinker, prompts, replace(NOISY, seed=5), keys)
    assert ids(other) != ids(together)


@pytest.mark.parametrize(
    ("family", "settings"),
    [("llama", {}), ("llama", {"top_k": 0, "drop_halt": False}), ("llama", {"halt": "argmax"}), ("gpt2", {})],
    ids=str,
)
def test_both_engines_draw_the_same_soft_tokens(family, settings, make_backbone):
    backbone = make_backbone(family)
    thinker = soft(backbone, **settings)
    prompts, keys = several(many_prompts(12), 5)
    wanted = generate(backbone, thinker, prompts, NOISY, keys)
    assert len({tuple(row.answer_ids) for row in wanted[:5]} | {row.latent_count for row in wanted}) > 2
    engine = FastEngine.of(backbone, thinker, NOISY, slots=11)  # two questions of five samples, and a slot left over
    assert ids(Scheduler(engine).run_all(prompts, keys)) == ids(wanted)


def test_both_engines_sample_the_same_text(backbone):
    thinker = TextThinker(backbone.embedding, backbone.end_think_id, cap=6)
    prompts, keys = several(many_prompts(5), 3)
    wanted = generate(backbone, thinker, prompts, NOISY, keys)
    assert len({tuple(row.thought_ids) for row in wanted}) > 5
    found = Scheduler(FastEngine.of(backbone, thinker, NOISY, slots=4)).run_all(prompts, keys)
    assert ids(found) == ids(wanted)


def test_rows_without_noise_stay_greedy_beside_noisy_ones(backbone, thinker):
    greedy = Decoding(max_answer_tokens=6)
    prompts = many_prompts(9)
    wanted = generate(backbone, thinker, prompts, greedy)
    assert ids(generate(backbone, thinker, prompts, replace(greedy, noise=0.0, seed=9))) == ids(wanted)
    noisy = generate(backbone, thinker, prompts, NOISY)
    assert ids(noisy) != ids(wanted)
    scheduler = Scheduler(FastEngine.of(backbone, thinker, greedy, slots=3))
    # noisy first, so that greedy questions get slots that were noisy, beside others that are
    order = [(key, how) for key in range(9) for how in ((NOISY, greedy) if key % 2 else (greedy, NOISY))]
    tickets = [(key, how, submit(scheduler, prompts[key], key, how)) for key, how in order]
    finish(scheduler)
    for key, how, ticket in tickets:
        assert ids([ticket.result()]) == ids([(wanted if how is greedy else noisy)[key]])


def test_samples_share_one_prefill_in_the_reference_engine(backbone, thinker):
    read, trunk = [], backbone.trunk
    backbone.trunk = lambda embeds, *rest: (read.append(embeds.shape[:2]), trunk(embeds, *rest))[1]
    prompts, keys = several(many_prompts(2), 8)
    generate(backbone, thinker, prompts, NOISY, keys)
    assert read[0] == (2, max(len(p.ids) for p in prompts) + 1) and {*read[1:]} == {(16, 1)}


def test_samples_submitted_together_are_admitted_together(backbone, thinker):
    scheduler = Scheduler(FastEngine.of(backbone, thinker, NOISY, slots=5), queue_limit=9)
    prefilled, logits = [], scheduler.engine.prompt_logits
    scheduler.engine.prompt_logits = lambda given: (prefilled.append(len(given)), logits(given))[1]
    first, second = many_prompts(2)
    tickets = scheduler.submit_samples(first, [(0, s) for s in range(4)])
    tickets += scheduler.submit_samples(second, [(1, s) for s in range(4)])
    with pytest.raises(UserError, match="already waiting"):
        scheduler.submit_samples(first, [(0, 8), (0, 9)])
    finish(scheduler)
    assert prefilled == [1, 1]
    prompts, keys = several([first, second], 4)
    assert ids([t.result() for t in tickets]) == ids(generate(backbone, thinker, prompts, NOISY, keys))


def test_returned_logits_are_the_noised_ones(backbone, thinker):
    [row] = generate(backbone, replace(thinker, top_k=0, halt_threshold=0.99), many_prompts(1), NOISY, [3], "all")
    for logits, embeds in zip(row.latent_logits, row.latent_embeds, strict=True):
        probs = logits.softmax(-1).index_fill(0, torch.tensor([backbone.end_think_id]), 0.0)
        torch.testing.assert_close(probs / probs.sum() @ backbone.embedding_weight, embeds, atol=1e-5, rtol=1e-4)


def test_noise_is_refused_for_thinkers_that_do_not_sample(backbone):
    for quiet in (NoThinker(), HiddenThinker(2)):
        with pytest.raises(UserError, match=f"noise: {type(quiet).__name__} does not sample its latents"):
            generate(backbone, quiet, many_prompts(1), NOISY)
    engine = FastEngine.of(backbone, NoThinker(), Decoding(max_answer_tokens=6), 2)
    with pytest.raises(UserError, match="does not sample"):
        submit(Scheduler(engine), many_prompts(1)[0], decoding=NOISY)
    with pytest.raises(UserError, match="noise"):
        Decoding(noise=-1.0)
