"""COCONUT: the layout of each stage; training and inference use the same latents."""

import pytest
from overfitting import small_backbone, tools_of

from ruplar import plugins
from ruplar.types import Example, SampleContext

EXAMPLE = Example("3+4, then times 2?", ("3+4=7", "7*2=14"), "14")


@pytest.fixture(scope="module")
def backbone():
    return small_backbone()


def test_stages_follow_the_progress_of_the_run():
    method = plugins.make("methods", "coconut", {"latent_by": 0.6, "max_stage": 3})
    # three stages of a fifth each, then the last
    found = [method.stage(p) for p in (0.0, 0.199, 0.201, 0.399, 0.401, 0.599, 0.601, 0.999)]
    assert found == [1, 1, 2, 2, 3, 3, 4, 4]


def test_every_stage_replaces_one_more_step_by_two_latents(backbone):
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
    check(
        0.2, 4, [], [-100, *answer]
    )  # both steps are latent: </think> has no label, as it is not generated at inference
    check(0.4, 6, [], [-100, *answer])  # a chain of two steps, with the latents of three
    check(0.6, 6, [], [-100, *answer])
