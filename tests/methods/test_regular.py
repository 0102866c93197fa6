"""ReGuLaR and ReGuLaR-T: one latent per step from frozen features of three kinds, and the file of visual ones."""

from __future__ import annotations

import hashlib
import pickle

import numpy as np
import pytest
import torch
from gaussian_checks import assert_latents_are_the_parallel_forwards
from overfitting import learn_by_heart, problems, small_backbone, tools_of
from pydantic import ValidationError

from ruplar import plugins
from ruplar.data.collate import collate
from ruplar.errors import UserError
from ruplar.methods._features import FeatureFile, step_key, write_features
from ruplar.methods.regular import frozen_means, make_projector
from ruplar.model.lora import add_lora
from ruplar.model.settings import LoraSettings
from ruplar.types import Example, SampleContext

EXAMPLE = Example("3+4, doubled?", ("3+4=7", "7*2=14"), "14")


def regular(**settings):
    return plugins.make("methods", "regular", settings)


@pytest.fixture
def backbone():
    made = small_backbone()
    add_lora(made, LoraSettings(rank=4, alpha=8, dropout=0.0))
    with torch.no_grad():
        for name, weight in made.model.named_parameters():
            if "lora_B" in name:
                weight.normal_(std=0.1)
    return made


@pytest.fixture(params=["features.safetensors", "features.npz"])
def file(request, tmp_path):
    """A features file, and the vector of every step in it."""
    steps = sorted({step for e in [EXAMPLE, *problems()] for step in e.steps})
    vectors = np.random.default_rng(0).standard_normal((len(steps), 48)).astype(np.float16)
    write_features(tmp_path / request.param, steps, vectors)
    return tmp_path / request.param, dict(zip(steps, vectors.astype(np.float32), strict=True))


def test_a_step_is_one_latent_taught_one_of_its_tokens(backbone):
    method, tools = regular(), tools_of(backbone)
    item = method.encode(EXAMPLE, tools, SampleContext(0, 0))
    assert len(item.latent_at) == 2 and item.ids[item.mark_at[0]] == backbone.end_think_id
    for at, step in zip(item.latent_at, EXAMPLE.steps, strict=True):
        assert item.labels[at] in tools.encode(step)
    drawn = {tuple(method.encode(EXAMPLE, tools, SampleContext(epoch, 0)).labels) for epoch in range(30)}
    assert len(drawn) > 5 and method.dynamic
    assert [s.ids for s in item.also["steps"]] == [tools.encode(step) for step in EXAMPLE.steps]


def test_text_features_are_never_called_regular():
    assert regular().label == regular(features="tokens").label == "ReGuLaR-T"
    assert regular(features="visual", feature_file="steps.npz").label == "ReGuLaR"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"features": "visual"}, "go together"),
        ({"feature_file": "a.npz"}, "go together"),
        ({"project": False}, "needs features: tokens"),
    ],
)
def test_settings_that_do_not_fit_are_refused(settings, said):
    with pytest.raises(ValidationError, match=said):
        regular(**settings)


def test_the_projector_is_the_papers_for_vectors():
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


def test_unprojected_tokens_are_one_group_a_step(backbone):
    method, tools = regular(features="tokens", project=False), tools_of(backbone)
    method.attach(backbone)
    assert "projector" not in method.modules()
    batch = collate([method.encode(EXAMPLE, tools, SampleContext(0, 0))], backbone.pad_id)
    for found, step in zip(method._latents(backbone, batch), EXAMPLE.steps, strict=True):
        rows = backbone.embedding(torch.tensor(tools.encode(step)))
        torch.testing.assert_close(found, rows.sum(0) / len(rows) ** 0.5, atol=1e-6, rtol=1e-4)


def test_the_heads_target_does_not_move_the_projector(backbone):
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


def test_a_features_file_gives_each_step_its_own_vector(file):
    path, vectors = file
    stored = FeatureFile(path)
    assert stored.width == 48
    for step, vector in vectors.items():
        assert stored[step].dtype == np.float32 and np.array_equal(stored[step], vector)
    again = pickle.loads(pickle.dumps(stored))
    assert np.array_equal(again["3+4=7"], vectors["3+4=7"]), "a worker opens its own"


def test_keys_are_the_first_eight_bytes_of_sha256():
    assert step_key("3+4=7").to_bytes(8, "big", signed=True) == hashlib.sha256(b"3+4=7").digest()[:8]


def test_a_step_without_features_is_named(file):
    path, _ = file
    with pytest.raises(UserError, match=r"no features of the step '1\+1=2'.*features: hidden"):
        FeatureFile(path)["1+1=2"]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.npz", None, "cannot be read"),
        ("a.safetensors", b"not one", "cannot be read"),
        ("a.csv", b"1,2", "ends in .npz or .safetensors"),
    ],
)
def test_a_broken_features_file_is_refused(tmp_path, name, content, said):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=said):
        FeatureFile(tmp_path / name)["3+4=7"]


def test_a_features_file_of_another_shape_is_refused(tmp_path):
    np.savez(tmp_path / "odd.npz", features=np.zeros((3, 4)), keys=np.zeros(2, dtype=np.int64))
    with pytest.raises(UserError, match=r"must hold `features` \[N, F\]"):
        FeatureFile(tmp_path / "odd.npz")["3+4=7"]
    with pytest.raises(UserError, match="a step stands twice"):
        write_features(tmp_path / "b.npz", ["1+1=2", "1+1=2"], np.zeros((2, 4)))
    with pytest.raises(UserError, match="give one a step"):
        write_features(tmp_path / "b.npz", ["1+1=2"], np.zeros((2, 4)))


def test_visual_features_reach_the_latents_and_a_kept_model_needs_no_file(file, backbone):
    path, vectors = file
    method, tools = regular(features="visual", feature_file=str(path)), tools_of(backbone)
    method.attach(backbone)
    batch = collate([method.encode(EXAMPLE, tools, SampleContext(0, 0))], backbone.pad_id)
    given = torch.stack([torch.from_numpy(vectors[step]) for step in EXAMPLE.steps])
    assert torch.equal(batch.features, given)
    expected = method.projector(given) * method.config.sigma
    torch.testing.assert_close(method._latents(backbone, batch), expected)
    assert method.loss(backbone, batch).total.isfinite()
    path.unlink()
    kept = plugins.make("methods", "regular", method.config.model_dump(mode="json"))
    kept.attach(backbone)
    assert kept.projector[0].weight.shape == (48, 48)


@pytest.mark.parametrize("kind", ["tokens", "visual"])
def test_it_learns_eight_problems_by_heart(kind, tmp_path):
    settings = {"features": "tokens"}
    if kind == "visual":
        steps = sorted({step for e in problems() for step in e.steps})
        vectors = np.random.default_rng(0).standard_normal((len(steps), 64)).astype(np.float32)
        write_features(tmp_path / "v.safetensors", steps, vectors)
        settings = {"features": "visual", "feature_file": str(tmp_path / "v.safetensors")}
    method = regular(**settings)
    found = learn_by_heart(method, steps=100)
    assert found.accuracy == 1.0
    assert [row.latent_count for row in found.rows] == [len(e.steps) for e in problems()]
    assert_latents_are_the_parallel_forwards(found.backbone, method, problems())


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
