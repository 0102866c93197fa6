"""The engine prefills the prompt of training, token for token."""

from __future__ import annotations

import pytest
import torch

from ruplar import plugins
from ruplar.data.encoding import Encoder
from ruplar.engine.reference import generate
from ruplar.engine.sampling import Decoding
from ruplar.priors.base import PriorTable
from ruplar.types import Example, SampleContext

EXAMPLES = [
    Example("Tom has 3 bags of 4 apples. He eats 2. How many are left?", ("3*4=12", "12-2=10"), "10"),
    Example("What is <think> 5 </think>?", (), "5"),
]


@pytest.fixture
def encoder(backbone) -> Encoder:
    priors = PriorTable(plugins.make("priors", "mixture"), backbone.prompt.plain)
    domain, spans = plugins.make("domains", "arithmetic"), plugins.make("spans", "step")
    return Encoder(backbone.prompt, backbone.markers, domain, spans, priors)


def prefilled(backbone, thinker, prompts, monkeypatch) -> list[torch.Tensor]:
    """The input embeddings of the prefill of `generate`, without padding."""
    seen = []
    trunk = backbone.trunk

    def listen(embeds, mask, positions, cache=None, all_layers=False):
        seen.append((embeds, mask))
        return trunk(embeds, mask, positions, cache, all_layers)

    monkeypatch.setattr(backbone, "trunk", listen)
    generate(backbone, thinker, prompts, Decoding(max_answer_tokens=1))
    embeds, mask = seen[0]
    return [row[kept.bool()] for row, kept in zip(embeds, mask, strict=True)]


@pytest.mark.parametrize("name", ["ruplar", "cot", "no_cot"])
def test_the_prefill_is_the_prompt_of_training(name, backbone, encoder, monkeypatch):
    method = plugins.make("methods", name)
    items = [method.encode(example, encoder, SampleContext(0, row)) for row, example in enumerate(EXAMPLES)]
    # everything before the first latent and the first label
    given = [
        item.ids[: min([*item.latent_at, *(i for i, x in enumerate(item.labels) if x != -100)])] for item in items
    ]
    prompts = [backbone.prompt(example.question) for example in EXAMPLES]
    rows = prefilled(backbone, method.thinker(backbone), prompts, monkeypatch)
    assert (
        len(torch.unique(backbone.embedding_weight, dim=0)) >= len(backbone.tokenizer) - 1
    )  # both markers start with equal rows
    for ids, row in zip(given, rows, strict=True):
        assert torch.equal(row, backbone.embedding(torch.tensor(ids)))
    last = backbone.end_think_id if name == "no_cot" else backbone.think_id
    assert [ids[-1] for ids in given] == [last, last]


@pytest.mark.parametrize("name", ["ruplar", "cot", "no_cot"])
def test_training_continues_the_prompt_as_inference_does(name, backbone, encoder):
    item = plugins.make("methods", name).encode(EXAMPLES[0], encoder, SampleContext(0, 0))
    start = len(backbone.prompt(EXAMPLES[0].question).ids)
    tail = [backbone.end_think_id, *backbone.prompt.plain("\\boxed{10}"), backbone.eos_id]
    thought = {
        "ruplar": [item.ids[start + 1]] * 2,  # two steps, two latents; the id is a placeholder
        "cot": backbone.prompt.plain("<<3*4=12>> <<12-2=10>>"),
        "no_cot": [],
    }[name]
    assert item.ids[start:] == [backbone.think_id, *thought, *tail]
    supervised = {"ruplar": tail, "cot": [*thought, *tail], "no_cot": tail[1:]}[name]
    assert item.labels == [-100] * (len(item.ids) - len(supervised)) + supervised
    assert item.latent_at == ([start + 1, start + 2] if name == "ruplar" else [])


def test_a_chain_without_steps_goes_straight_to_the_end_marker(backbone, encoder):
    item = plugins.make("methods", "ruplar").encode(EXAMPLES[1], encoder, SampleContext(0, 0))
    start = len(backbone.prompt(EXAMPLES[1].question).ids)
    assert item.ids[start : start + 2] == [backbone.think_id, backbone.end_think_id]
    assert item.latent_at == [] and item.priors == []
