"""Training continues the prompt as inference does, token for token."""

import pytest
from toys import encoder_of

from ruplar import plugins
from ruplar.types import Example, SampleContext

EXAMPLES = [
    Example("Tom has 3 bags of 4 apples. He eats 2. How many are left?", ("3*4=12", "12-2=10"), "10"),
    Example("What is <think> 5 </think>?", (), "5"),
]


@pytest.fixture
def encoder(backbone):
    return encoder_of(backbone)


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
