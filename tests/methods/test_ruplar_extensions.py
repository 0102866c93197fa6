"""RuPLaR's extensions beyond the paper: noisy inputs and the CoT teacher, and that both are off by default."""

import math
from dataclasses import replace

import pytest
import torch
from overfitting import problems, small_backbone, tools_of
from toys import with_random_adapter

from ruplar import objective, plugins
from ruplar.data.collate import collate
from ruplar.errors import UserError
from ruplar.methods.ruplar import noisy_priors
from ruplar.model.forward import flat_hidden
from ruplar.model.settings import LoraSettings
from ruplar.types import SampleContext

EXTENSIONS = {"input_noise": 0.5, "distill_logits": 0.5}


@pytest.fixture
def backbone():
    """A small Llama with a LoRA adapter of random weights."""
    return with_random_adapter(small_backbone(), LoraSettings(rank=4, alpha=8, dropout=0.0))


@pytest.fixture
def tools(backbone):
    return tools_of(backbone)


def method_with(backbone, **settings):
    method = plugins.make("methods", "ruplar", settings)
    method.attach(backbone)
    return method


def items_of(method, tools, count: int = 4, epoch: int = 0):
    return [method.encode(e, tools, SampleContext(epoch, row)) for row, e in enumerate(problems(count))]


def losses(method, backbone, batch) -> dict[str, float]:
    return {name: part.item() for name, part in method.loss(backbone, batch).parts.items()}


def test_extensions_are_off_by_default(backbone, tools):
    method = method_with(backbone)
    [item] = items_of(method, tools, 1)
    assert (item.features, item.also, item.mark_at) == ([], {}, []) and not method.dynamic and not method.draws
    assert method.modules() == {}
    assert set(losses(method, backbone, collate([item], 0))) == {"answer", "prior", "align"}


def test_losses_do_not_depend_on_padding_packing_or_batch_composition(backbone, tools):
    method = method_with(backbone, **EXTENSIONS)
    items = items_of(method, tools)
    padded = collate(items, backbone.pad_id)
    whole = losses(method, backbone, padded)
    assert set(whole) == {"answer", "prior", "align", "distill"}
    assert losses(method, backbone, collate(items, backbone.pad_id, 160)) == pytest.approx(whole, rel=1e-4)
    added = dict.fromkeys(whole, 0.0)
    for item in items:
        one = replace(collate([item], backbone.pad_id), totals=padded.totals)
        for name, value in losses(method, backbone, one).items():
            added[name] += value
    assert added == pytest.approx(whole, rel=1e-4)


def test_noise_is_seeded_by_the_sample_context(backbone, tools):
    method = method_with(backbone, input_noise=0.5)

    def seeds(epoch: int):
        return [vector.tolist() for item in items_of(method, tools, epoch=epoch) for vector in item.features]

    assert method.draws and not method.dynamic
    assert seeds(0) == seeds(0) != seeds(1)
    assert len({tuple(seed) for seed in seeds(0)}) == len(seeds(0)), "each latent has noise of its own"


def test_noise_changes_inputs_and_not_targets(backbone, tools):
    quiet, noisy = method_with(backbone), method_with(backbone, input_noise=1.0)
    items = items_of(noisy, tools)
    batch = collate(items, backbone.pad_id)
    probs = noisy_priors(batch, 1.0)
    torch.testing.assert_close(probs.sum(-1), torch.ones(len(probs)))
    assert ((probs > 0) == (batch.prior_probs > 0)).all() and not torch.allclose(probs, batch.prior_probs, atol=0.05)
    torch.testing.assert_close(noisy_priors(batch, 1e-6), batch.prior_probs, atol=1e-5, rtol=1e-4)
    # the first latent is predicted from the question only, so its loss does not depend on the inputs
    first = [replace(i, latent_at=i.latent_at[:1], priors=i.priors[:1], features=i.features[:1]) for i in items]
    alone = [losses(m, backbone, collate(first, backbone.pad_id))["prior"] for m in (quiet, noisy)]
    assert alone[0] == pytest.approx(alone[1], rel=1e-5)
    silent = replace(batch, features=None)
    assert losses(noisy, backbone, batch)["prior"] != pytest.approx(losses(quiet, backbone, silent)["prior"], rel=1e-5)


def test_token_kl_is_averaged_over_all_labels_of_the_optimizer_step():
    teacher, student = torch.tensor([[0.5, 0.5]]).log(), torch.tensor([[0.25, 0.75]]).log()
    kl = 0.5 * math.log(2) + 0.5 * math.log(2 / 3)
    assert objective.token_kl(teacher, student, torch.tensor(4.0)).item() == pytest.approx(kl / 4)
    assert objective.token_kl(teacher, teacher + 3, torch.tensor(1.0)).item() == pytest.approx(0, abs=1e-7)


def test_the_teacher_reads_the_chain_as_text_and_has_the_same_answer(backbone, tools):
    method = method_with(backbone, distill_logits=1.0)
    for item in items_of(method, tools):
        [teacher] = item.also["teacher"]
        answer = [label for label in teacher.labels if label != -100]
        assert [label for label in item.labels if label != -100] == [backbone.end_think_id, *answer]
        assert teacher.ids[-len(answer) :] == answer
        text = backbone.tokenizer.decode(teacher.ids)
        assert text.index("<think>") < text.index("<<") < text.index("</think>")


def test_the_teacher_is_the_backbone_without_its_adapter(backbone, tools):
    method = method_with(backbone, distill_logits=1.0)
    batch = collate(items_of(method, tools), backbone.pad_id)
    start, teacher = small_backbone(), batch.also["teacher"]  # equal weights, no adapter
    start.model.eval()
    answer_at = batch.label_at[batch.label_ids != backbone.end_think_id]
    assert len(answer_at) == len(teacher.label_at)
    with torch.no_grad():
        known, ours = flat_hidden(start, teacher), flat_hidden(backbone, batch)
        logits = start.logits(known[teacher.label_at]), backbone.logits(ours[answer_at])
    wanted = objective.token_kl(*logits, batch.totals[0]).item()
    assert losses(method, backbone, batch)["distill"] == pytest.approx(wanted, rel=1e-4)


def test_the_teacher_needs_an_adapter():
    plain = small_backbone()
    method = method_with(plain, distill_logits=1.0)
    with pytest.raises(UserError, match="method.distill_logits: needs the model that training started from"):
        method.loss(plain, collate(items_of(method, tools_of(plain)), plain.pad_id))
