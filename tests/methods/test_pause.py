"""Pause tokens: one learned vector at a fixed number of positions, the same in training and at inference."""

import torch
from overfitting import answers_of, problems, small_backbone, tools_of

from ruplar import plugins
from ruplar.data.collate import collate
from ruplar.types import SampleContext


def test_every_example_has_the_same_number_of_pauses_and_only_the_answer_is_learnt():
    backbone = small_backbone()
    method, tools = plugins.make("methods", "pause", {"latents": 3}), tools_of(backbone)
    for example in problems(4):
        item = method.encode(example, tools, SampleContext(0, 0))
        prompt, answer = tools.prompt(example.question).ids, tools.answer(example.answer)
        assert item.latent_at == [len(prompt) + 1 + i for i in range(3)]
        assert item.ids[len(prompt) + 4] == backbone.end_think_id
        assert item.labels == [-100] * (len(prompt) + 5) + answer


def test_the_vector_is_learnt_and_fed_at_every_pause():
    backbone = small_backbone()
    method, examples = plugins.make("methods", "pause"), problems(3)
    method.attach(backbone)
    items = [method.encode(e, tools_of(backbone), SampleContext(0, i)) for i, e in enumerate(examples)]
    method.loss(backbone, collate(items, backbone.pad_id)).total.backward()
    assert method.pause.vector.grad.abs().sum() > 0
    with torch.no_grad():
        method.pause.vector.add_(1.0)
    for row in answers_of(backbone, method, [e.question for e in examples]):
        torch.testing.assert_close(torch.stack(row.latent_embeds), method.pause.vector.expand(4, -1))


def test_a_chain_of_results_has_what_follows_the_last_equals_sign():
    backbone = small_backbone()
    tools, [example] = tools_of(backbone), problems(1, steps=(2, 2))
    item = plugins.make("methods", "cot", {"chain": "results"}).encode(example, tools, SampleContext(0, 0))
    written = " ".join(f"<<{step.split('=')[-1]}>>" for step in example.steps)
    start = len(tools.prompt(example.question).ids) + 1
    assert item.ids[start : item.ids.index(backbone.end_think_id)] == tools.encode(written)
