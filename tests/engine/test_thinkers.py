from dataclasses import replace

import pytest
import torch
from cases import cases
from engine_helpers import many_prompts
from torch import nn
from toys import assert_same

from ruplar.engine.fast import FastEngine
from ruplar.engine.options import EngineOptions
from ruplar.engine.reference import generate
from ruplar.engine.sampling import Decoding
from ruplar.engine.scheduler import Scheduler
from ruplar.engine.slot_state import kind_of
from ruplar.engine.thinker import HiddenThinker, SoftThinker, TextThinker
from ruplar.model.rollout import Projector
from ruplar.model.soft_tokens import readable

END = 3
GREEDY = Decoding(max_answer_tokens=6)
SAMPLED = Decoding(temperature=1.3, top_p=0.9, seed=3, max_answer_tokens=6)
ROWS = torch.tensor([[1.0, 0.0], [0.0, 1.0], [2.0, 2.0], [-8.0, 8.0]])  # the last is </think>


@pytest.fixture
def embedding() -> nn.Embedding:
    return nn.Embedding.from_pretrained(ROWS.clone())


def think(thinker, probs: list[float]):
    """The decision on one row with this distribution."""
    return thinker.next(torch.tensor([probs]).log(), torch.zeros(1, 2), torch.zeros(1, dtype=torch.long))


@pytest.mark.parametrize(("how", "probs", "expected"), cases(__file__, "soft_tokens"))
def test_a_soft_token_is_the_expected_embedding(embedding, how, probs, expected):
    thought = think(SoftThinker(embedding, END, **how), probs)
    torch.testing.assert_close(thought.embeds, torch.tensor([expected]))
    assert not thought.halt.item()


@pytest.mark.parametrize(("probs", "argmax", "threshold"), cases(__file__, "halts"))
def test_halting_by_argmax_and_by_threshold(embedding, probs, argmax, threshold):
    thinker = SoftThinker(embedding, END)
    assert think(replace(thinker, halt="argmax"), probs).halt.item() == argmax
    assert think(replace(thinker, halt="threshold"), probs).halt.item() == threshold


def test_a_row_certain_to_halt_has_no_nan(embedding):
    logits = torch.tensor([[-200.0, -200.0, -200.0, 0.0]])
    for top_k in (0, 2):
        thinker = SoftThinker(embedding, END, top_k=top_k)
        thought = thinker.next(logits, torch.zeros(1, 2), torch.zeros(1, dtype=torch.long))
        assert thought.halt.item() and thought.embeds.isfinite().all()


def test_text_thinker_feeds_the_most_likely_token_and_halts_on_the_marker(embedding):
    going = think(TextThinker(embedding, END), [0.2, 0.5, 0.2, 0.1])
    assert (going.halt.item(), going.tokens.item(), going.embeds.tolist()) == (False, 1, [[0.0, 1.0]])
    assert think(TextThinker(embedding, END), [0.2, 0.2, 0.2, 0.4]).halt.item()


def test_readable_latents_have_tokens_entropy_and_halt():
    class Letters:
        def decode(self, ids):
            return "abc|"[ids[0]]

    [latent] = readable(torch.tensor([[0.5, 0.25, 0.125, 0.125]]).log(), Letters(), END, top=2)
    assert latent.tokens == ("a", "b") and latent.probs == pytest.approx((0.5, 0.25))
    # 0.5*1 + 0.25*2 + 2*0.125*3 = 1.75 bits
    assert latent.entropy == pytest.approx(1.75 * 0.693147, abs=1e-5) and latent.halt == pytest.approx(0.125)


def test_the_hidden_state_is_fed_until_the_count_is_reached():
    hidden, made = torch.tensor([[1.0, -2.0], [3.0, 4.0]]), torch.tensor([1, 2])
    thought = HiddenThinker(2).next(torch.zeros(2, 5), hidden, made)
    assert thought.halt.tolist() == [False, True] and thought.tokens is None
    assert thought.embeds.tolist() == hidden.tolist()
    doubled = HiddenThinker(2, lambda h: 2 * h).next(torch.zeros(2, 5), hidden, made)
    assert doubled.embeds.tolist() == [[2.0, -4.0], [6.0, 8.0]]


def test_half_precision_passes_through_a_projector_in_full_precision():
    project = Projector(4)
    hidden = torch.randn(3, 4, generator=torch.Generator().manual_seed(0)).bfloat16()
    thought = HiddenThinker(1, project).next(torch.zeros(3, 5), hidden, torch.zeros(3, dtype=torch.long))
    assert thought.embeds.dtype == torch.bfloat16
    torch.testing.assert_close(thought.embeds, project(hidden.float()).bfloat16())


@pytest.mark.parametrize(
    ("family", "projected", "decoding"),
    [("llama", False, GREEDY), ("llama", True, SAMPLED), ("qwen3", True, GREEDY), ("gpt2", False, SAMPLED)],
    ids=["llama", "llama projected", "qwen3 projected", "gpt2"],
)
def test_both_engines_agree_on_latents_that_are_hidden_states(family, projected, decoding, make_backbone):
    backbone, prompts = make_backbone(family), many_prompts(30, seed=6)
    thinker = HiddenThinker(4, Projector(32) if projected else None)
    assert kind_of(thinker, backbone.embedding) == "captured"
    wanted = generate(backbone, thinker, prompts, decoding, keep_latents="all")
    engine = FastEngine.of(backbone, thinker, decoding, 5, EngineOptions(keep="all"))
    found = Scheduler(engine).run_all(prompts)
    assert {row.latent_count for row in wanted} == {4} and len({tuple(row.answer_ids) for row in wanted}) > 5
    assert_same(found, wanted, 2e-3)  # fed back unprojected, rounding grows along the chain
