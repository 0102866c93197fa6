"""CoLaR with one group per step: one latent per step, its summed token embeddings."""

import pytest
import torch
from overfitting import small_backbone, tools_of
from toys import with_random_adapter

from ruplar import plugins
from ruplar.data.collate import collate
from ruplar.model.forward import embed
from ruplar.model.settings import LoraSettings
from ruplar.types import Example, SampleContext

EXAMPLE = Example("3+4, doubled?", ("3+4=7", "7*2=14"), "14")


@pytest.fixture
def backbone():
    return with_random_adapter(small_backbone(), LoraSettings(rank=4, alpha=8, dropout=0.0))


def test_a_step_is_one_latent_that_predicts_one_of_its_tokens(backbone):
    method, tools = plugins.make("methods", "regular"), tools_of(backbone)
    item = method.encode(EXAMPLE, tools, SampleContext(0, 0))
    assert len(item.latent_at) == 2 and item.ids[item.mark_at[0]] == backbone.end_think_id
    for at, step in zip(item.latent_at, EXAMPLE.steps, strict=True):
        assert item.labels[at] in tools.encode(step)
    drawn = {tuple(method.encode(EXAMPLE, tools, SampleContext(epoch, 0)).labels) for epoch in range(30)}
    assert len(drawn) > 5 and method.dynamic


def test_a_latent_is_colar_s_group_of_the_step(backbone):
    method, tools = plugins.make("methods", "regular"), tools_of(backbone)
    batch = collate([method.encode(EXAMPLE, tools, SampleContext(0, 0))], backbone.pad_id)
    found = embed(backbone, batch).flatten(0, 1)[batch.latent_at]
    for latent, step in zip(found, EXAMPLE.steps, strict=True):
        rows = backbone.embedding(torch.tensor(tools.encode(step)))
        torch.testing.assert_close(latent, rows.sum(0) / len(rows) ** 0.5, atol=1e-6, rtol=1e-4)
