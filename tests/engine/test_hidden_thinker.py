"""Latents that are hidden states, fed back unchanged or through a projector, in both engines."""

import pytest
import torch
from engine_helpers import many_prompts
from toys import assert_same

from ruplar.engine.fast import FastEngine
from ruplar.engine.options import EngineOptions
from ruplar.engine.reference import generate
from ruplar.engine.sampling import Decoding
from ruplar.engine.scheduler import Scheduler
from ruplar.engine.slot_state import kind_of
from ruplar.engine.thinker import HiddenThinker
from ruplar.model.rollout import Projector

GREEDY = Decoding(max_answer_tokens=6)
SAMPLED = Decoding(temperature=1.3, top_p=0.9, seed=3, max_answer_tokens=6)


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
def test_both_engines_agree(family, projected, decoding, make_backbone):
    backbone, prompts = make_backbone(family), many_prompts(30, seed=6)
    thinker = HiddenThinker(4, Projector(32) if projected else None)
    assert kind_of(thinker, backbone.embedding) == "captured"
    wanted = generate(backbone, thinker, prompts, decoding, keep_latents="all")
    engine = FastEngine.of(backbone, thinker, decoding, 5, EngineOptions(keep="all"))
    found = Scheduler(engine).run_all(prompts)
    assert {row.latent_count for row in wanted} == {4} and len({tuple(row.answer_ids) for row in wanted}) > 5
    assert_same(found, wanted, 2e-3)  # fed back unprojected, rounding grows along the chain
