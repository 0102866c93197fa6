"""Random models that halt after different numbers of latents, so that the rows of a batch differ."""

import pytest
import torch
from toys import QUESTIONS

from ruplar.engine.thinker import SoftThinker

# P(</think>) is near 1/260 in a random model; just above that it differs from row to row whether it is reached
THRESHOLDS = {"llama": 0.01, "qwen2": 0.05, "qwen3": 0.005, "gpt2": 0.02}


@pytest.fixture(params=list(THRESHOLDS))
def family(request) -> str:
    return request.param


@pytest.fixture
def backbone(family, tiny_backbone):
    """A random backbone of each family, GPT-2's tied; its markers were added to the tokenizer."""
    made = tiny_backbone(family, tied=family == "gpt2")
    assert len(made.added) == 2
    with torch.no_grad():  # both markers start with equal rows, the mean of the others, and would never be likely
        made.head.weight[made.end_think_id] = 0.3 * torch.randn(32, generator=torch.Generator().manual_seed(3))
    return made


@pytest.fixture
def thinker(family, backbone):
    return SoftThinker(backbone.embedding, backbone.end_think_id, "threshold", THRESHOLDS[family], cap=7)


@pytest.fixture
def prompts(backbone):
    return [backbone.prompt(q) for q in QUESTIONS]
