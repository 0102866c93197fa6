"""What ruplar may be given beyond the paper: each part by hand, and that nothing of it is there unless it is set."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from overfitting import problems, small_backbone, tools_of

from ruplar import objective, plugins
from ruplar.data.collate import collate
from ruplar.engine.reference import generate
from ruplar.engine.sampling import Decoding
from ruplar.engine.thinker import SoftThinker
from ruplar.errors import UserError
from ruplar.methods import _extensions as _extensions
from ruplar.model.forward import flat_layers
from ruplar.model.lora import add_lora, unadapted
from ruplar.model.settings import LoraSettings
from ruplar.model.store import Model, ModelMetadata, PluginSpec, load_model, save_model
from ruplar.types import SampleContext

ALL = {
    "own_latents": 0.6,
    "own_passes": 2,
    "input_noise": 0.5,
    "step_weight": 0.5,
    "distill_hidden": 1.0,
    "distill_logits": 0.5,
    "align_layer": 1,
}


def adapted_backbone():
    """A small Llama with a LoRA adapter that is not 0."""
    backbone = small_backbone()
    add_lora(backbone, LoraSettings(rank=4, alpha=8, dropout=0.0))
    torch.manual_seed(1)
    for weight in backbone.model.parameters():
        if weight.requires_grad:
            torch.nn.init.normal_(weight, std=0.1)
    return backbone


@pytest.fixture
def backbone():
    return adapted_backbone()


@pytest.fixture
def tools(backbone):
    return tools_of(backbone)


def method_with(backbone, **settings):
    method = plugins.make("methods", "ruplar", settings)
    method.attach(backbone)
    return method


def items_of(method, tools, count: int = 4, context: SampleContext = SampleContext(0, 0)):  # noqa: B008
    return [method.encode(e, tools, context._replace(row=row)) for row, e in enumerate(problems(count))]


def losses(method, backbone, batch) -> dict[str, float]:
    return {name: part.item() for name, part in method.loss(backbone, batch).parts.items()}


def test_without_a_setting_there_is_nothing_beyond_the_paper(backbone, tools):
    method = method_with(backbone)
    [item] = items_of(method, tools, 1)
    assert (item.features, item.also, item.mark_at) == ([], {}, []) and not method.dynamic and not method.draws
    assert method.modules() == method.inference_modules() == {}
    assert set(losses(method, backbone, collate([item], 0))) == {"answer", "prior", "align"}


def test_every_part_is_added_to_the_paper_s_and_none_depends_on_who_shares_the_batch(backbone, tools):
    method = method_with(backbone, **ALL)
    items = items_of(method, tools)
    whole = losses(method, backbone, collate(items, backbone.pad_id))
    assert set(whole) == {"answer", "prior", "align", "step_words", "distill", "imitate"}
    packed = losses(method, backbone, collate(items, backbone.pad_id, 160))
    assert packed == pytest.approx(whole, rel=1e-4)
    together, added = collate(items, backbone.pad_id), dict.fromkeys(whole, 0.0)
    for item in items:
        one = replace(collate([item], backbone.pad_id), totals=together.totals)
        for name, value in losses(method, backbone, one).items():
            added[name] += value
    assert added == pytest.approx(whole, rel=1e-4)


# the model's own soft tokens


def test_the_share_of_own_latents_grows_with_the_run_and_repeats_for_a_visit():
    config = plugins.load("methods", "ruplar").Config(own_latents=0.8, own_latents_ramp=0.5)

    def own(progress: float, epoch: int = 0) -> list[bool]:
        rows = (_extensions.features(config, SampleContext(epoch, row, progress), 3) for row in range(400))
        return [bool(vector[0]) for vectors in rows for vector in vectors]

    # 1,200 draws: three standard errors of a share of 0.4 are 0.042
    assert [np.mean(own(p)) for p in (0.0, 0.25, 0.5, 0.9)] == pytest.approx([0.0, 0.4, 0.8, 0.8], abs=0.042)
    assert own(0.25) == own(0.25) and own(0.25) != own(0.25, epoch=1)


def test_after_n_passes_the_first_n_own_latents_are_what_inference_feeds(backbone, tools):
    method = method_with(backbone, own_latents=1.0, own_passes=3)
    examples = [e for e in problems(8) if len(e.steps) == 3][:2]
    assert len(examples) == 2
    items = [method.encode(e, tools, SampleContext(0, row)) for row, e in enumerate(examples)]
    batch = collate(items, backbone.pad_id)
    found = _extensions.inputs(method.config, backbone, batch, method.thinker(backbone))
    backbone.model.eval()
    # as many latents as the chains have: three, whatever the model would like
    thinker = replace(method.thinker(backbone), halt_threshold=0.9999, cap=3)
    prompts = [tools.prompt(e.question) for e in examples]
    rows = generate(backbone, thinker, prompts, Decoding(max_answer_tokens=1), keep_latents="embeds")
    assert [row.latent_count for row in rows] == [3, 3]
    torch.testing.assert_close(
        found, torch.stack([z for row in rows for z in row.latent_embeds]), atol=1e-5, rtol=1e-4
    )
    one = _extensions.inputs(
        method.config.model_copy(update={"own_passes": 1}), backbone, batch, method.thinker(backbone)
    )
    torch.testing.assert_close(one[::3], found[::3], atol=1e-5, rtol=1e-4)
    assert not torch.allclose(one[2::3], found[2::3], atol=1e-3), "the third still stands on priors after one pass"


def test_only_chosen_latents_are_own_and_no_gradient_flows_into_them(backbone, tools):
    method = method_with(backbone, own_latents=0.5)
    batch = collate(items_of(method, tools, 8), backbone.pad_id)
    own = batch.features[:, 0] > 0
    assert 0 < own.sum() < len(own)
    plain = _extensions.inputs(
        method.config.model_copy(update={"own_latents": 0.0}), backbone, batch, method.thinker(backbone)
    )
    mixed = _extensions.inputs(method.config, backbone, batch, method.thinker(backbone))
    assert torch.equal(mixed[~own], plain[~own]) and not torch.isclose(mixed[own], plain[own]).all(-1).any()
    assert not mixed.requires_grad


def test_noised_inputs_leave_the_targets_alone(backbone, tools):
    quiet, noisy = method_with(backbone), method_with(backbone, input_noise=1.0)
    batch = collate(items_of(noisy, tools), backbone.pad_id)
    probs = _extensions._noised(batch, 1.0)
    torch.testing.assert_close(probs.sum(-1), torch.ones(len(probs)))
    assert ((probs > 0) == (batch.prior_probs > 0)).all() and not torch.allclose(probs, batch.prior_probs, atol=0.05)
    torch.testing.assert_close(_extensions._noised(batch, 1e-6), batch.prior_probs, atol=1e-5, rtol=1e-4)
    # the first latent is predicted from the question alone, so its loss is the same whatever is fed
    first = [replace_latents(item, 1) for item in items_of(noisy, tools)]
    same = [losses(m, backbone, collate(first, backbone.pad_id))["prior"] for m in (quiet, noisy)]
    assert same[0] == pytest.approx(same[1], rel=1e-5)
    both = [losses(m, backbone, batch)["prior"] for m in (quiet, noisy)]
    assert both[0] != pytest.approx(both[1], rel=1e-5), "later ones are predicted from noised inputs"


def replace_latents(item, count: int):
    """The item with its first latents only supervised."""
    return replace(item, latent_at=item.latent_at[:count], priors=item.priors[:count], features=item.features[:count])


# the step decoder


def test_the_step_loss_is_the_mean_surprise_of_each_latents_words(backbone, tools):
    method = method_with(backbone, step_weight=2.0, step_layers=2)
    items = items_of(method, tools, 3)
    batch = collate(items, backbone.pad_id)
    decoder = method.modules()["step_decoder"]
    by_hand = []
    for item in items:
        alone = collate([item], backbone.pad_id)
        hidden, _ = flat_layers(backbone, alone, alone.latent_at)
        means = []
        for at, step in zip(item.latent_at, item.also["steps"], strict=True):
            out = decoder(hidden[at - 1][None], backbone.embedding(torch.tensor([step.ids])))[0]
            log_q = backbone.logits(out).log_softmax(-1)
            words = step.ids[1:]
            assert words[-1] == backbone.eos_id
            means.append(-sum(log_q[i, word] for i, word in enumerate(words)) / len(words))
        by_hand.append(sum(means) / len(means))
    wanted = 2.0 * sum(by_hand).item() / 3
    assert losses(method, backbone, batch)["step_words"] == pytest.approx(wanted, rel=1e-4)


def test_the_step_decoder_looks_only_back(backbone):
    decoder = method_with(backbone, step_weight=1.0).modules()["step_decoder"]
    hidden, embeds = torch.randn(2, 64), torch.randn(2, 6, 64)
    other = embeds.clone()
    other[:, 4] = torch.randn(2, 64)
    found, changed = decoder(hidden, embeds), decoder(hidden, other)
    torch.testing.assert_close(found[:, :4], changed[:, :4])
    assert not torch.allclose(found[:, 4:], changed[:, 4:], atol=1e-3)
    assert decoder(hidden + 1, embeds)[:, 0].sub(found[:, 0]).abs().max() > 1e-3


@pytest.mark.parametrize("kind", ["small", "backbone"])
@pytest.mark.parametrize("reads", ["predicting", "reading"])
def test_a_step_decoder_teaches_the_adapter_and_learns_itself_while_the_base_stays(kind, reads, backbone, tools):
    method = method_with(
        backbone, step_weight=1.0, step_decoder=kind, step_reads=reads, answer_weight=0, prior_weight=0, align_weight=0
    )
    decoder = method.modules()["step_decoder"]
    backbone.model.train()
    trained = {name for name, weight in backbone.model.named_parameters() if weight.requires_grad}
    method.loss(backbone, collate(items_of(method, tools), backbone.pad_id)).total.backward()
    moved = {name for name, weight in backbone.model.named_parameters() if weight.grad is not None}
    assert moved == trained == {n for n, w in backbone.model.named_parameters() if w.requires_grad}
    assert any(weight.grad.abs().sum() > 0 for n, weight in backbone.model.named_parameters() if n in trained)
    assert all(weight.grad.abs().sum() > 0 for weight in decoder.parameters())
    assert backbone.model.training
    assert len(list(decoder.layers)) == (1 if kind == "small" else 0)


def test_the_step_decoder_is_the_same_every_time_and_not_kept_with_the_model(backbone, tmp_path):
    method, again = (method_with(backbone, step_weight=1.0) for _ in range(2))
    ours, theirs = (m.modules()["step_decoder"].state_dict() for m in (method, again))
    assert all(torch.equal(ours[name], theirs[name]) for name in ours) and method.inference_modules() == {}
    small = small_backbone()
    prompt = small.prompt.config
    method.attach(small)
    settings = method.config.model_dump(mode="json")
    backbone_settings = {"name": "embedded", "lora": None}
    card = ModelMetadata(
        method=PluginSpec(name="ruplar", settings=settings), backbone=backbone_settings, prompt=prompt,
        domain=PluginSpec(name="arithmetic"),
    )  # fmt: skip
    folder = save_model(tmp_path / "model", Model(small, method, plugins.make("domains", "arithmetic"), card))
    assert not (folder / "method.safetensors").exists()
    loaded = load_model(folder)
    assert loaded.method.config.step_weight == 1.0 and loaded.method._decoder is None


def test_what_needs_an_adapter_says_so(tools):
    plain = small_backbone()
    for settings in (
        {"distill_hidden": 1.0},
        {"distill_logits": 1.0},
        {"step_weight": 1.0, "step_decoder": "backbone"},
    ):
        method = method_with(plain, **settings)
        with pytest.raises(UserError, match="needs the model that training started from"):
            method.loss(plain, collate(items_of(method, tools_of(plain)), plain.pad_id))
    backbone = adapted_backbone()
    backbone.plain_model.gradient_checkpointing_enable()
    method = method_with(backbone, step_weight=1.0, step_decoder="backbone")
    with pytest.raises(UserError, match="gradient_checkpointing"):
        method.loss(backbone, collate(items_of(method, tools), backbone.pad_id))


# the teacher


def test_distance_is_smooth_l1_in_units_of_the_teachers_spread():
    teacher = torch.tensor([[[0.0, 2.0, 4.0, 2.0]]])  # standard deviation of 4 values, n - 1: sqrt(8/3) = 1.633
    student = teacher + torch.tensor([[[0.0, 1.0, -4.0, 0.0]]])
    # in units of it 0.6124 and 2.449: 0.5 * 0.6124^2 = 0.1875, and 2.449 - 0.5 = 1.949; over 4 features
    found = objective.distance(student, teacher, torch.tensor(1.0))
    assert found.item() == pytest.approx((0.1875 + 1.9495) / 4, abs=1e-3)
    two = objective.distance(student.repeat(3, 2, 1), teacher.repeat(3, 2, 1), torch.tensor(2.0))
    assert two.item() == pytest.approx(found.item()) and objective.distance(teacher, teacher, torch.ones(())) == 0


def test_token_kl_is_over_the_labels_of_the_step():
    teacher, student = torch.tensor([[0.5, 0.5]]).log(), torch.tensor([[0.25, 0.75]]).log()
    kl = 0.5 * math.log(2) + 0.5 * math.log(2 / 3)
    assert objective.token_kl(teacher, student, torch.tensor(4.0)).item() == pytest.approx(kl / 4)
    assert objective.token_kl(teacher, teacher + 3, torch.tensor(1.0)).item() == pytest.approx(0, abs=1e-7)


def test_teacher_and_model_are_marked_at_the_same_token_before_the_same_answer(backbone, tools):
    method = method_with(backbone, distill_hidden=1.0)
    for item in items_of(method, tools):
        [teacher] = item.also["teacher"]
        [ours], [theirs] = item.mark_at, teacher.mark_at
        assert item.ids[ours:] == teacher.ids[theirs:] and item.ids[ours] == backbone.end_think_id
        answer = [label for label in teacher.labels if label != -100]
        assert [label for label in item.labels if label != -100] == [backbone.end_think_id, *answer]
        text = backbone.tokenizer.decode(teacher.ids)
        assert "<<" in text and text.index("<think>") < text.index("<<") < text.index("</think>")


def test_the_mark_stands_behind_what_every_answer_begins_with(backbone, tools):
    backbone.prompt.config = backbone.prompt.config.model_copy(update={"answer": r"\boxed{{answer}}"})
    lead = len(backbone.prompt.plain(r"\boxed{"))
    assert lead > 0 and _extensions.lead("18", tools) == _extensions.lead("-7", tools) == lead


def test_the_teacher_is_the_model_training_started_from(backbone, tools):
    method = method_with(backbone, distill_hidden=1.0, distill_logits=1.0)
    batch = collate(items_of(method, tools), backbone.pad_id)
    before = losses(method, backbone, batch)
    start = small_backbone()  # the same weights, without an adapter
    taught = batch.also["teacher"]
    start.model.eval()
    with torch.no_grad():
        last, layers = flat_layers(start, taught, taught.mark_at)
        said = batch.label_at[batch.label_ids != backbone.end_think_id]
        hidden, ours = flat_layers(backbone, batch, batch.mark_at)
        logits = start.logits(last[taught.label_at]), backbone.logits(hidden[said])
    assert before["distill"] == pytest.approx(objective.distance(ours, layers, batch.totals[1]).item(), rel=1e-4)
    assert before["imitate"] == pytest.approx(objective.token_kl(*logits, batch.totals[0]).item(), rel=1e-4)
    assert len(said) == len(taught.label_at)


def test_leaving_the_adapter_out_for_a_while_changes_nothing_afterwards(backbone):
    embeds, positions = torch.randn(1, 5, 64), torch.arange(5)[None]
    backbone.model.train()
    trained = [weight for weight in backbone.model.parameters() if weight.requires_grad]
    with_it = backbone.trunk(embeds, None, positions)[0]
    with unadapted(backbone, "test"):
        without = backbone.trunk(embeds, None, positions)[0]
        assert not backbone.model.training
    start = small_backbone()
    torch.testing.assert_close(without, start.trunk(embeds, None, positions)[0])
    assert torch.equal(backbone.trunk(embeds, None, positions)[0], with_it) and not torch.allclose(with_it, without)
    assert backbone.model.training and [w for w in backbone.model.parameters() if w.requires_grad] == trained


# training with them


@pytest.mark.parametrize(
    ("settings", "part", "to"),
    [
        ({"own_latents": 0.5, "own_latents_ramp": 0.5}, "prior", 0.8),
        ({"input_noise": 0.5}, "prior", 0.8),
        ({"step_weight": 1.0}, "step_words", 0.5),
        (
            {"step_weight": 1.0, "step_decoder": "backbone"},
            "step_words",
            0.95,
        ),  # a random backbone can write nothing yet
        ({"distill_hidden": 1.0}, "distill", 0.8),
        ({"distill_logits": 1.0}, "imitate", 0.5),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else str(value),
)
def test_each_parts_loss_falls_in_training(settings, part, to, backbone, tools):
    others = {"align_weight": 0.0, "answer_weight": 0.0, "prior_weight": float(part == "prior")}
    method = method_with(backbone, **others, **settings)
    weights = [w for w in backbone.model.parameters() if w.requires_grad]
    weights += [w for module in method.modules().values() for w in module.parameters()]
    optimizer = torch.optim.AdamW(weights, lr=1e-2, weight_decay=0.0)
    seen = []
    for step in range(30):
        batch = collate(items_of(method, tools, 4, SampleContext(step, 0, step / 30)), backbone.pad_id)
        loss = method.loss(backbone, batch)
        optimizer.zero_grad()
        loss.total.backward()
        optimizer.step()
        seen.append(loss.parts[part].item())
    assert np.mean(seen[-3:]) < to * np.mean(seen[:3]), seen


def test_thinking_is_the_same_whatever_training_was_helped_by(backbone):
    thinkers = [method_with(backbone, **settings).thinker(backbone) for settings in ({}, ALL)]
    assert isinstance(thinkers[0], SoftThinker) and thinkers[0] == thinkers[1]
