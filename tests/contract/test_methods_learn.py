"""Every method memorises eight problems, and its latents at inference equal those of one parallel forward."""

import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "methods"))
from overfitting import learn_by_heart, problems, tools_of  # noqa: E402

from ruplar import plugins  # noqa: E402
from ruplar.data.collate import collate  # noqa: E402
from ruplar.types import SampleContext  # noqa: E402


@pytest.fixture(scope="module", params=plugins.names("methods"))
def learnt(request):
    """A method after 60 updates on all eight problems."""
    method = plugins.make("methods", request.param)
    return method, learn_by_heart(method, steps=60)


def test_a_method_memorises_eight_problems(learnt):
    method, found = learnt
    assert found.accuracy == 1.0, "answers that were generated, not those of the training forward"
    assert found.losses[-1] < 0.5 * found.losses[0]


def test_latents_fed_step_by_step_equal_one_parallel_forward(learnt):
    method, found = learnt
    backbone, thinker = found.backbone, method.thinker(found.backbone)
    for example, row in zip(problems(), found.rows, strict=True):
        fed = row.latent_embeds
        if row.thought_ids:
            fed = list(backbone.embedding(torch.tensor(row.thought_ids)))
        assert bool(fed) == (thinker.thinks and bool(row.latent_count or row.thought_ids))
        if not fed:
            continue
        ids = torch.tensor([*backbone.prompt(method.question(example.question)).ids, backbone.think_id])
        embeds = torch.cat([backbone.embedding(ids), torch.stack(list(fed))])[None]
        with torch.no_grad():
            hidden, _ = backbone.trunk(embeds, None, torch.arange(embeds.shape[1])[None])
            at = hidden[0, len(ids) - 1 :]  # where each latent, and then the end, was decided
            said = thinker.next(backbone.logits(at).float(), at, torch.arange(len(at)))
        torch.testing.assert_close(torch.stack(list(fed)), said.embeds[:-1], atol=1e-4, rtol=1e-3)
        assert not said.halt[:-1].any()
        assert bool(said.halt[-1]) == row.halted


@pytest.mark.parametrize("learnt", ["colar", "regular"], indirect=True)  # those with a latent head
def test_latents_of_a_head_equal_those_of_its_training_forward(learnt, monkeypatch):
    # the method's loss itself is computed, reading at the latents' places what was thought there
    method, found = learnt
    head = method.modules()["head"]
    backbone, tools, compared = found.backbone, tools_of(found.backbone), 0
    for at, (example, row) in enumerate(zip(problems(), found.rows, strict=True)):
        fed = torch.stack(list(row.latent_embeds))
        prompt = list(backbone.prompt(method.question(example.question)).ids)
        contexts = (method.encode(example, tools, SampleContext(step, at, 1.0)) for step in range(40))
        # CoLaR draws a speed a visit
        item = next(item for item in contexts if list(item.ids[: len(prompt)]) == prompt)
        batch, said = collate([item], backbone.pad_id), []
        # it may think in more or fewer than it was taught; later ones change no earlier
        both = min(len(batch.latent_at), len(fed))
        fed = torch.cat([fed, fed.new_zeros(len(batch.latent_at), fed.shape[1])])[: len(batch.latent_at)]
        with monkeypatch.context() as patched, torch.no_grad():
            patched.setattr("ruplar.model.forward.mix", lambda *_, fed=fed: fed)
            patched.setattr(method, "_latents", lambda *_, fed=fed: fed, raising=False)
            hook = head.register_forward_hook(lambda _, __, out, said=said: said.append(out[0]))
            method.loss(backbone, batch)
            hook.remove()
        torch.testing.assert_close(said[0][:both] * method.config.sigma, fed[:both], atol=1e-4, rtol=1e-3)
        compared += both
    assert compared >= 16, "about two of each problem"
