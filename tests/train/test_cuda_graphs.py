"""Passes replayed from fixed buffers train as passes that are run: the same losses and gradients, whatever the method asks.

CUDA's graphs are stood in for by buffers on the CPU that behave as theirs do: inputs are copied into one place, results
come from one place, and a replay writes over those of the last.
"""

import weakref

import pytest
import torch
from toys import encoder_of
from transformers import AutoConfig, AutoModelForCausalLM, TrainerCallback

from ruplar import plugins
from ruplar.data.collate import collate
from ruplar.model.cuda_graphs import ROWS, Replay
from ruplar.model.fold_lora import fold_adapters
from ruplar.model.forward import embed, flat_hidden, packed_mask
from ruplar.model.load import attach_markers
from ruplar.model.lora import add_lora, unadapted
from ruplar.model.rollout import roll_out
from ruplar.model.settings import LoraSettings, PromptConfig
from ruplar.model.tokenizers import load_tokenizer
from ruplar.problems.word_problems import generate
from ruplar.train.run import train
from ruplar.train.trainer import Learner
from ruplar.types import Item, SampleContext

PLUS = {"input_noise": 0.3, "distill_logits": 0.5}
METHODS = [
    ("ruplar", {}), ("cot", {}), ("no_cot", {}), ("colar", {}), ("icot", {}), ("ruplar", PLUS),
    ("coconut", {}), ("codi", {}),
]  # fmt: skip


def still(layers, samples, pool):
    """A pass whose inputs and results each have one place, as a captured graph's have."""
    weights = [weight for weight in layers.parameters() if weight.requires_grad]
    places, kept = None, {}

    class Graph(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *given):
            nonlocal places
            for place, value in zip(samples, given, strict=False):
                with torch.no_grad():
                    place.copy_(value)
            with torch.enable_grad():
                kept["out"] = layers(*samples)
            places = [torch.empty_like(one) for one in kept["out"]] if places is None else places
            for place, value in zip(places, kept["out"], strict=True):
                place.copy_(value.detach())
            return tuple(place.detach() for place in places)

        @staticmethod
        def backward(ctx, *slopes):
            found = torch.autograd.grad(
                kept["out"], [samples[0], *weights], [s.clone() for s in slopes], allow_unused=True
            )
            lent = kept.setdefault("slopes", [None if one is None else torch.empty_like(one) for one in found])
            for place, value in zip(lent, found, strict=True):
                if place is not None:
                    place.copy_(value)
            # nobody else holds these, so a weight without a gradient takes them for its own
            found = [None if place is None else place.detach() for place in lent]
            return found[0], *[None] * (len(samples) - 1), *found[1:]

    return lambda *given: Graph.apply(*given, *weights)


@pytest.fixture
def learner(tiny_backbone):
    """Method and settings → what is trained, with a folded adapter that has learnt something, and packed batches."""

    def make(name, settings, count=6, rows=3):
        backbone = tiny_backbone(tokenizer=load_tokenizer("embedded"))
        add_lora(backbone, LoraSettings(rank=4, alpha=8, dropout=0.0))
        torch.manual_seed(3)
        for weight in (w for n, w in backbone.model.named_parameters() if "lora_B" in n):
            torch.nn.init.normal_(weight, std=0.1)
        method = plugins.make("methods", name, settings)
        fold_adapters(backbone, once=not method.packs)
        method.attach(backbone)
        tools = encoder_of(backbone)
        items = [
            method.encode(e, tools, SampleContext(0, i, progress=1.0))
            for i, e in enumerate(generate(count, 7, steps=(1, 4)))
        ]
        longest = max(len(item.ids) for item in items)
        return Learner(backbone, method).train(), collate(items, backbone.pad_id, rows * longest * method.packs)

    return make


def _step(learner, batch):
    learner.zero_grad()
    out = learner(**batch.as_dict())
    out["loss"].backward()
    slopes = {n: w.grad.clone() for n, w in learner.named_parameters() if w.grad is not None}
    return {name: part.item() for name, part in out["parts"].items()}, slopes


def _assert_close(found, slopes, far):
    """Gradients are no farther apart than a share of their norm."""
    assert found.keys() == slopes.keys() and len(found) >= 28
    for weight, slope in slopes.items():
        assert (found[weight] - slope).norm() <= far * slope.norm().clamp_min(1e-6), weight


gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
WHERE = ["cpu", pytest.param("float32", marks=gpu), pytest.param("autocast", marks=gpu)]
"""Passes stood in for on the CPU, in double precision because rounding grows along a chain of latents; real graphs on a GPU."""


def _on(where, learner, batch):
    """The learner and its batch where passes are replayed, and the replay."""
    if where == "cpu":
        return learner.double(), batch, Replay(learner.backbone, still)
    return learner.to("cuda"), batch.to("cuda"), Replay(learner.backbone)


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize(("name", "settings"), METHODS, ids=lambda v: v if isinstance(v, str) else "+".join(v))
def test_a_replayed_step_has_the_loss_and_gradient_of_one_that_is_run(learner, name, settings, where):
    learner, batch = learner(name, settings)
    assert len(batch.ids) % ROWS, "some row must be added, where rows are packed"
    learner, batch, replay = _on(where, learner, batch)
    coarse = 5e-2 if learner.method.packs else 0.3
    near, far = {"cpu": (1e-5, 1e-8), "float32": (1e-4, 1e-3), "autocast": (3e-2, coarse)}[where]
    with torch.autocast("cuda", dtype=torch.bfloat16, enabled=where == "autocast"):
        parts, slopes = _step(learner, batch)
        learner.backbone.replay = replay
        for _ in range(2):  # captured, then replayed
            again, found = _step(learner, batch)
            assert again == pytest.approx(parts, rel=near)
            _assert_close(found, slopes, far)
    assert len(replay.found) == 1


def test_row_counts_that_round_to_the_same_number_share_a_graph(learner):
    learner, first = learner("cot", {})
    replay = learner.backbone.replay = Replay(learner.backbone, still)
    more = [torch.cat([value, value[:1]]) for value in (first.ids, first.mask, first.positions)]
    second = type(first)(**{**first.as_dict(), "ids": more[0], "mask": more[1], "positions": more[2], "also": {}})
    _step(learner, first), _step(learner, second)
    assert len(replay.found) == 1 and len(first.ids) != len(second.ids)
    backbone = learner.backbone
    embeds, mask = embed(backbone, second), packed_mask(second.mask)
    last, _ = backbone.trunk(embeds, mask, second.positions)
    assert last.shape == embeds.shape  # the rows that were added are gone again


def test_a_pass_without_the_adapter_is_not_replayed_from_one_with_it(learner):
    learner, batch = learner("cot", {})
    backbone = learner.backbone
    given = embed(backbone, batch), packed_mask(batch.mask), batch.positions
    with torch.no_grad(), unadapted(backbone, "this test"):
        plain = backbone.trunk(*given)[0]
        backbone.replay = Replay(backbone, still)
        assert torch.equal(backbone.trunk(*given)[0], plain)
    with torch.no_grad():
        adapted = backbone.trunk(*given)[0]
        assert len(backbone.replay.found) == 1 and not torch.allclose(adapted, plain, atol=1e-3)
        with unadapted(backbone, "this test"):
            assert torch.equal(backbone.trunk(*given)[0], plain)


def test_only_the_first_pass_of_a_step_with_gradient_is_replayed(learner):
    learner, batch = learner("cot", {})
    backbone = learner.backbone
    ran = []

    def counted(layers, samples, pool):
        graph = still(layers, samples, pool)
        return lambda *given: ran.append(1) or graph(*given)

    backbone.replay = Replay(backbone, counted)
    twice = lambda: sum(learner.method.loss(backbone, batch).total for _ in range(2))  # noqa: E731
    backbone.replay.begin()
    twice().backward()
    assert len(ran) == 1
    slopes = {n: w.grad.clone() for n, w in backbone.model.named_parameters() if w.grad is not None}
    backbone.replay = None
    backbone.model.zero_grad()
    twice().backward()
    for name, weight in backbone.model.named_parameters():
        if weight.grad is not None:
            torch.testing.assert_close(slopes[name], weight.grad, atol=1e-6, rtol=1e-4, msg=name)


def test_a_pass_without_gradient_is_not_replayed_over_one_whose_backward_pass_is_to_come(learner):
    learner, batch = learner("cot", {})
    backbone = learner.backbone
    backbone.replay = Replay(backbone, still)
    given = embed(backbone, batch), packed_mask(batch.mask), batch.positions
    backbone.begin_step()
    backbone.trunk(*given)
    with torch.no_grad():
        backbone.trunk(*given)
        assert len(backbone.replay.found) == 1  # all graphs share one memory: the second pass was run as it is
        backbone.begin_step()
        first, _ = backbone.trunk(*given)
        kept = first.clone()
        backbone.trunk(given[0] + 1.0, *given[1:])
    assert len(backbone.replay.found) == 2
    assert torch.equal(first, kept)  # two replays of one graph, and both results are there


SHAPE = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2}
SHAPE |= {"num_attention_heads": 4, "num_key_value_heads": 2}


@pytest.mark.parametrize(
    ("attention", "window", "graphs"), [("sdpa", None, 1), ("eager", None, 0), ("sdpa", 4, 0)], ids=str
)
def test_recurrent_latents_are_replayed_only_with_a_4d_mask(attention, window, graphs):
    torch.manual_seed(0)
    shape = AutoConfig.for_model("mistral", vocab_size=2304, initializer_range=0.2, sliding_window=window, **SHAPE)
    model = AutoModelForCausalLM.from_config(shape, dtype=torch.float32, attn_implementation=attention)
    backbone = attach_markers(model, load_tokenizer("embedded"), PromptConfig())
    items = [Item([*range(5, 16 + i)], [-100] * (11 + i), [3 + i, 4 + i]) for i in range(3)]
    batch = collate(items, backbone.pad_id)
    run = roll_out(backbone, batch).at(batch.latent_at)
    backbone.replay = Replay(backbone, still)
    torch.testing.assert_close(roll_out(backbone, batch).at(batch.latent_at), run, atol=1e-4, rtol=1e-4)
    assert len(backbone.replay.found) == graphs


def _added_up(learner, batches):
    """Gradients of micro-batches that make one step."""
    learner.zero_grad()
    for batch in batches:
        learner(**batch.as_dict())["loss"].backward()
    return {n: w.grad.clone() for n, w in learner.named_parameters() if w.grad is not None}


@pytest.mark.parametrize("where", WHERE[:2])
@pytest.mark.parametrize("name", ["cot", "coconut", "codi"])
def test_micro_batches_add_up_when_they_are_replayed(learner, name, where):
    learner, batch, replay = _on(where, *learner(name, {}))
    learner.accumulates = True
    plain = _added_up(learner, [batch, batch, batch])
    learner.backbone.replay = replay
    for _ in range(2):  # captured, then replayed
        _assert_close(_added_up(learner, [batch, batch, batch]), plain, 1e-8 if where == "cpu" else 1e-3)
    assert replay.found


@pytest.mark.parametrize("times", [1, 2])
def test_the_learner_knows_whether_micro_batches_accumulate(config, tmp_path, monkeypatch, times):
    made = []
    monkeypatch.setattr(
        "ruplar.train.run.Learner", lambda *given, **how: made.append(Learner(*given, **how)) or made[-1]
    )
    train(config(gradient_accumulation_steps=times, max_steps=1), output=tmp_path / "run")
    assert [learner.accumulates for learner in made] == [times > 1]


def test_without_a_gpu_nothing_changes(config, tmp_path):
    from ruplar.config import from_dict

    made = config(max_steps=1)
    result = train(from_dict({**made.as_dict(), "speed": {"graph": True, "pack": 128}}), output=tmp_path / "run")
    assert result.steps == 1


def test_what_was_folded_before_a_graph_is_not_used_within_it(learner):
    learner, batch = learner("codi", {})
    learner.double()
    backbone, taught = learner.backbone, batch.also["teacher"]

    def slopes():
        learner.zero_grad()
        backbone.begin_step()
        written = flat_hidden(backbone, taught)[taught.label_at].square().sum()  # run as it is: its folds are kept
        thought = roll_out(backbone, batch, learner.method.projector).at(batch.label_at).square().sum()
        (written + thought).backward()
        return {n: w.grad.clone() for n, w in learner.named_parameters() if w.grad is not None}

    plain = slopes()
    backbone.replay = Replay(backbone, still)
    replayed = slopes()
    assert len(backbone.replay.found) == 1
    _assert_close(replayed, plain, 1e-8)


def test_a_batch_of_recurrent_latents_that_is_too_large_is_run_as_it_is(learner, monkeypatch):
    learner, batch = learner("coconut", {})
    learner.double()
    parts, _ = _step(learner, batch)
    replay = learner.backbone.replay = Replay(learner.backbone, still)
    monkeypatch.setattr("ruplar.model.cuda_graphs.LARGEST", batch.ids.numel() - 1)
    again, _ = _step(learner, batch)
    assert again == pytest.approx(parts) and not replay.found


def test_where_recurrent_latents_grow_in_number_the_graphs_of_fewer_are_let_go(trainer):
    made = trainer(method={"name": "coconut", "latent_by": 0.6}, max_steps=15)
    replay = made.learner.backbone.replay = Replay(made.learner.backbone, still)
    held = []

    class Watch(TrainerCallback):
        def on_step_end(self, args, state, control, **kwargs):
            held.append({end - first for _, first, end, *_ in replay.found})

    made.add_callback(Watch())
    made.train()
    assert held == [{2}] * 3 + [{4}] * 3 + [{6}] * 9


def test_methods_with_packing_keep_their_graphs_between_stages(trainer):
    made = trainer(method="icot", max_steps=6)
    replay = made.learner.backbone.replay = Replay(made.learner.backbone, still)
    assert made.learner.method.stage(5 / 6) > made.learner.method.stage(0)
    replay.forget = lambda: pytest.fail("a packed row is as long in every stage")
    made.train()


@gpu
def test_graphs_that_are_let_go_leave_their_memory(learner):
    learner, batch = learner("coconut", {})
    learner.to("cuda")
    batch = batch.to("cuda")
    replay = learner.backbone.replay = Replay(learner.backbone)
    _step(learner, batch)
    learner.zero_grad()  # until then gradients lie where the graph left them
    torch.cuda.empty_cache()
    held, graph = torch.cuda.memory_reserved(), weakref.ref(next(iter(replay.found.values())))
    replay.forget()
    assert graph() is None and torch.cuda.memory_reserved() < held
    _step(learner, batch)  # captured anew
    assert len(replay.found) == 1
