"""ReGuLaR-T: one latent per step from frozen text features, a projector and a latent head."""

import pytest
import torch
from overfitting import problems, small_backbone, tools_of
from pydantic import ValidationError
from toys import with_random_adapter

from ruplar import plugins
from ruplar.data.collate import collate
from ruplar.errors import UserError
from ruplar.methods.regular import frozen_means, make_projector
from ruplar.model.settings import LoraSettings
from ruplar.types import Example, SampleContext

EXAMPLE = Example("3+4, doubled?", ("3+4=7", "7*2=14"), "14")


def regular(**settings):
    return plugins.make("methods", "regular", settings)


@pytest.fixture
def backbone():
    return with_random_adapter(small_backbone(), LoraSettings(rank=4, alpha=8, dropout=0.0))


def test_a_step_is_one_latent_that_predicts_one_of_its_tokens(backbone):
    method, tools = regular(), tools_of(backbone)
    item = method.encode(EXAMPLE, tools, SampleContext(0, 0))
    assert len(item.latent_at) == 2 and item.ids[item.mark_at[0]] == backbone.end_think_id
    for at, step in zip(item.latent_at, EXAMPLE.steps, strict=True):
        assert item.labels[at] in tools.encode(step)
    drawn = {tuple(method.encode(EXAMPLE, tools, SampleContext(epoch, 0)).labels) for epoch in range(30)}
    assert len(drawn) > 5 and method.dynamic
    assert [s.ids for s in item.also["steps"]] == [tools.encode(step) for step in EXAMPLE.steps]


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"features": "visual"}, "'hidden' or 'tokens'"), ({"project": False}, "needs features: tokens")],
)
def test_settings_that_do_not_fit_are_refused(settings, message):
    with pytest.raises(ValidationError, match=message):
        regular(**settings)


def test_the_projector_is_the_paper_s():
    made = make_projector(1280, 2048)
    # two 1x1 convolutions and two group norms: 4.3 million
    assert sum(w.numel() for w in made.parameters()) == 1280 * 1280 + 1280 + 2 * 1280 + 1280 * 2048 + 2048 + 2 * 2048
    assert [type(layer).__name__ for layer in made] == ["Linear", "GroupNorm", "GELU", "Linear", "GroupNorm"]
    assert (made[1].num_groups, made[4].num_groups) == (32, 1)
    out = make_projector(48, 64)(torch.randn(5, 48))
    assert out.mean(1).abs().max() < 1e-5 and out.std(1, correction=0).tolist() == pytest.approx([1] * 5, abs=1e-3)
    x = torch.randn(4, 1280)
    convolved = torch.nn.functional.conv2d(x[:, :, None, None], made[0].weight[:, :, None, None], made[0].bias)
    torch.testing.assert_close(made[0](x), convolved[:, :, 0, 0], atol=1e-5, rtol=1e-4)


def test_hidden_features_are_means_of_the_model_without_its_adapter(backbone):
    method, tools = regular(), tools_of(backbone)
    batch = collate([method.encode(EXAMPLE, tools, SampleContext(0, 0))], backbone.pad_id)
    found = frozen_means(backbone, batch.also["steps"])
    with torch.no_grad(), backbone.model.disable_adapter():
        for row, step in enumerate(EXAMPLE.steps):
            ids = torch.tensor([tools.encode(step)])
            hidden = backbone.plain_model.base_model(input_ids=ids).last_hidden_state
            torch.testing.assert_close(found[row], hidden[0].mean(0), atol=1e-5, rtol=1e-4)
    assert not found.requires_grad


def test_hidden_features_need_a_frozen_model():
    plain = small_backbone()
    method = regular()
    method.attach(plain)
    batch = collate([method.encode(EXAMPLE, tools_of(plain), SampleContext(0, 0))], plain.pad_id)
    with pytest.raises(UserError, match="backbone.lora: null trains all of it"):
        method.loss(plain, batch)


def test_without_projector_a_latent_is_colar_s_group_of_the_step(backbone):
    method, tools = regular(features="tokens", project=False), tools_of(backbone)
    method.attach(backbone)
    assert "projector" not in method.modules()
    batch = collate([method.encode(EXAMPLE, tools, SampleContext(0, 0))], backbone.pad_id)
    for found, step in zip(method._latents(backbone, batch), EXAMPLE.steps, strict=True):
        rows = backbone.embedding(torch.tensor(tools.encode(step)))
        torch.testing.assert_close(found, rows.sum(0) / len(rows) ** 0.5, atol=1e-6, rtol=1e-4)


def test_the_head_s_targets_do_not_train_the_projector(backbone):
    method, tools = regular(features="tokens"), tools_of(backbone)
    method.attach(backbone)
    batch = collate([method.encode(EXAMPLE, tools, SampleContext(0, 0))], backbone.pad_id)
    with torch.no_grad():  # a head that reads nothing: only through its targets could its loss reach the projector
        for layer in (method.head.mean, method.head.log_std):
            layer.weight.zero_()
    weights = list(method.projector.parameters())
    parts = method.loss(backbone, batch).parts
    from_target = torch.autograd.grad(parts["latent"], weights, retain_graph=True)
    assert all(grad.abs().max() == 0 for grad in from_target)
    from_words = torch.autograd.grad(parts["answer"] + parts["thought"], weights)
    assert all(grad.abs().max() > 0 for grad in from_words)


def test_the_projector_has_a_learning_rate_of_its_own(tmp_path, backbone):
    from transformers import TrainingArguments

    from ruplar.data.encoding import ChainDataset
    from ruplar.train.trainer import Learner, ReasonerTrainer

    method = regular()
    method.attach(backbone)
    args = TrainingArguments(
        output_dir=str(tmp_path), learning_rate=1e-2, weight_decay=0.1, use_cpu=True, report_to="none", max_steps=1,
        warmup_steps=0, lr_scheduler_type="constant", per_device_train_batch_size=2, save_strategy="no",
        remove_unused_columns=False, label_names=[], disable_tqdm=True,
    )  # fmt: skip
    dataset = ChainDataset(problems(4), method, tools_of(backbone))
    trainer = ReasonerTrainer(Learner(backbone, method), args, dataset)
    optimizer = trainer.create_optimizer()
    rates = {id(w): group["lr"] for group in optimizer.param_groups for w in group["params"]}
    assert [rates[id(w)] for w in method.projector.parameters()] == pytest.approx([0.07 * 1e-2] * 8)
    assert {rates[id(w)] for w in method.head.parameters()} == {1e-2}
    trained = [w for w in trainer.learner.parameters() if w.requires_grad]
    assert sorted(map(id, trained)) == sorted(rates), "each weight in one group"
    trainer.train()
