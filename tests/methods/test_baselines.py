"""The sequences of COCONUT, ICoT, pause tokens and regular latents; training and inference use the same latents."""

import pytest
import torch
from overfitting import answers_of, problems, tools_of

from ruplar import plugins
from ruplar.data.collate import collate
from ruplar.model.forward import embed
from ruplar.types import Example, SampleContext

EXAMPLE = Example("3+4, then times 2?", ("3+4=7", "7*2=14"), "14")


def test_coconuts_stages_follow_the_progress_of_the_run():
    method = plugins.make("methods", "coconut", {"latent_by": 0.6, "max_stage": 3})
    # three stages of a fifth each, then the last
    found = [method.stage(p) for p in (0.0, 0.199, 0.201, 0.399, 0.401, 0.599, 0.601, 0.999)]
    assert found == [1, 1, 2, 2, 3, 3, 4, 4]


def test_every_stage_of_coconut_replaces_one_more_step_by_two_latents(backbone):
    tools, method = tools_of(backbone), plugins.make("methods", "coconut", {"latent_by": 0.6})
    prompt, answer = list(tools.prompt(EXAMPLE.question).ids), tools.answer("14")
    think, close = backbone.think_id, backbone.end_think_id

    def check(progress, latents, text, labels):
        item = method.encode(EXAMPLE, tools, SampleContext(0, 0, progress))
        head = [*prompt, *[think] * (1 + latents)]
        assert item.ids == [*head, *text, close, *answer]
        assert item.labels == [-100] * len(head) + labels
        assert item.latent_at == list(range(len(prompt) + 1, len(prompt) + 1 + latents))

    second = tools.encode("<<7*2=14>>")
    check(0.0, 2, second, [*second, close, *answer])
    # both steps are latent: </think> has no label, as it is not generated at inference
    check(0.2, 4, [], [-100, *answer])
    check(0.4, 6, [], [-100, *answer])  # a chain of two steps, with the latents of three
    check(0.6, 6, [], [-100, *answer])


def icot(**settings):
    # practically no removal offset: e^-50
    return plugins.make("methods", "icot", {"smoothing": 50.0, **settings})


def thought_of(backbone, item) -> list[int]:
    """The ids between the markers."""
    return item.ids[item.ids.index(backbone.think_id) + 1 : item.ids.index(backbone.end_think_id)]


def test_icots_chain_is_removed_from_its_start_with_the_progress(backbone):
    tools, method = tools_of(backbone), icot(removed_by=0.5, remove_all_from=10)
    chain = tools.encode("<<3+4=7>> <<7*2=14>>")
    assert len(chain) > 10
    for progress, removed in ((0.0, 0), (0.049, 0), (0.05, 1), (0.249, 4), (0.25, 5), (0.499, 9)):
        item = method.encode(EXAMPLE, tools, SampleContext(0, 0, progress))
        assert thought_of(backbone, item) == chain[removed:], progress
        assert method.stage(progress) == removed
    for progress in (0.5, 0.7, 0.999):
        assert thought_of(backbone, method.encode(EXAMPLE, tools, SampleContext(0, 0, progress))) == []
        assert method.stage(progress) == 10


def test_icot_everything_after_think_has_a_label_and_nothing_before(backbone):
    item = icot().encode(EXAMPLE, tools_of(backbone), SampleContext(0, 0, 0.1))
    start = item.ids.index(backbone.think_id) + 1
    assert item.labels == [-100] * start + item.ids[start:]
    assert item.ids[-1] == backbone.eos_id and item.latent_at == []


@pytest.mark.slow
def test_removal_offsets_follow_the_published_distribution(backbone):
    tools, method = tools_of(backbone), plugins.make("methods", "icot")
    full = len(tools.encode("<<3+4=7>> <<7*2=14>>"))

    def offset(epoch, row):
        return full - len(thought_of(backbone, method.encode(EXAMPLE, tools, SampleContext(epoch, row))))

    drawn = [offset(0, row) for row in range(3000)]
    # P(o = 0) = 1 - e^-4 = 0.9817, so 55 ± 7 of 3000 have an offset; P(o >= 2) = e^-8, so one
    assert 25 <= sum(o >= 1 for o in drawn) <= 85 and sum(o >= 2 for o in drawn) <= 6
    assert drawn == [offset(0, row) for row in range(3000)]
    assert drawn != [offset(1, row) for row in range(3000)]


def test_every_example_has_the_same_number_of_pauses_and_only_the_answer_is_learnt(backbone):
    method, tools = plugins.make("methods", "pause", {"latents": 3}), tools_of(backbone)
    for example in problems(4):
        item = method.encode(example, tools, SampleContext(0, 0))
        prompt, answer = tools.prompt(example.question).ids, tools.answer(example.answer)
        assert item.latent_at == [len(prompt) + 1 + i for i in range(3)]
        assert item.ids[len(prompt) + 4] == backbone.end_think_id
        assert item.labels == [-100] * (len(prompt) + 5) + answer


def test_the_vector_is_learnt_and_fed_at_every_pause(backbone):
    method, examples = plugins.make("methods", "pause"), problems(3)
    method.attach(backbone)
    items = [method.encode(e, tools_of(backbone), SampleContext(0, i)) for i, e in enumerate(examples)]
    method.loss(backbone, collate(items, backbone.pad_id)).total.backward()
    assert method.pause.vector.grad.abs().sum() > 0
    with torch.no_grad():
        method.pause.vector.add_(1.0)
    for row in answers_of(backbone, method, [e.question for e in examples]):
        torch.testing.assert_close(torch.stack(row.latent_embeds), method.pause.vector.expand(4, -1))


def test_a_chain_of_results_has_what_follows_the_last_equals_sign(backbone):
    tools, [example] = tools_of(backbone), problems(1, steps=(2, 2))
    item = plugins.make("methods", "cot", {"chain": "results"}).encode(example, tools, SampleContext(0, 0))
    written = " ".join(f"<<{step.split('=')[-1]}>>" for step in example.steps)
    start = len(tools.prompt(example.question).ids) + 1
    assert item.ids[start : item.ids.index(backbone.end_think_id)] == tools.encode(written)


def test_regular_a_step_is_one_latent_that_predicts_one_of_its_tokens(backbone):
    method, tools = plugins.make("methods", "regular"), tools_of(backbone)
    item = method.encode(EXAMPLE, tools, SampleContext(0, 0))
    assert len(item.latent_at) == 2 and item.ids[item.mark_at[0]] == backbone.end_think_id
    for at, step in zip(item.latent_at, EXAMPLE.steps, strict=True):
        assert item.labels[at] in tools.encode(step)
    drawn = {tuple(method.encode(EXAMPLE, tools, SampleContext(epoch, 0)).labels) for epoch in range(30)}
    assert len(drawn) > 5 and method.dynamic


def test_regular_a_latent_is_colar_s_group_of_the_step(backbone):
    method, tools = plugins.make("methods", "regular"), tools_of(backbone)
    batch = collate([method.encode(EXAMPLE, tools, SampleContext(0, 0))], backbone.pad_id)
    found = embed(backbone, batch).flatten(0, 1)[batch.latent_at]
    for latent, step in zip(found, EXAMPLE.steps, strict=True):
        rows = backbone.embedding(torch.tensor(tools.encode(step)))
        torch.testing.assert_close(latent, rows.sum(0) / len(rows) ** 0.5, atol=1e-6, rtol=1e-4)
