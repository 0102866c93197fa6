"""The fast engine agrees with the reference engine token for token in float32, whatever else is in flight."""

import platform
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from cases import cases
from engine_helpers import FAMILIES, HashedThinker, finish, many_prompts, soft, submit
from torch.utils._python_dispatch import TorchDispatchMode
from toys import assert_same

from ruplar.engine.decoder import Decoder
from ruplar.engine.fast import FastEngine
from ruplar.engine.fused import Linear, padded
from ruplar.engine.gaussian import GaussianThinker, LatentHead
from ruplar.engine.graphs import Snapshots
from ruplar.engine.hf_decoder import HFDecoder
from ruplar.engine.options import EngineOptions
from ruplar.engine.reference import generate
from ruplar.engine.sampling import Decoding, Noise, pick
from ruplar.engine.scheduler import Scheduler
from ruplar.engine.thinker import NoThinker, TextThinker

GREEDY = Decoding(max_answer_tokens=6)
SAMPLED = Decoding(temperature=1.3, top_p=0.9, seed=3, max_answer_tokens=6)
NOISY = Decoding(noise=1.0, seed=3, max_answer_tokens=6)


def run(backbone, thinker, prompts, decoding, slots=5, options=None, keys=None):
    return Scheduler(FastEngine.of(backbone, thinker, decoding, slots, options)).run_all(prompts, keys)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_packed_matrix_gives_the_same_products_and_only_x86_packs(dtype):
    linear, x = Linear(torch.randn(7, 5, dtype=dtype), torch.randn(7, dtype=dtype)), torch.randn(3, 5, dtype=dtype)
    wanted = linear(x)
    linear.pack()
    assert (linear.packed is not None) == (platform.machine() in ("x86_64", "AMD64"))
    torch.testing.assert_close(linear(x), wanted)


@pytest.mark.parametrize("family", FAMILIES)
def test_many_questions_agree_with_slots_refilled_in_flight(family, make_backbone):
    backbone, prompts = make_backbone(family), many_prompts(80)
    thinker = soft(backbone)
    wanted = generate(backbone, thinker, prompts, GREEDY)
    # the set is only useful if its rows differ
    assert {0, 1, 2} <= {row.latent_count for row in wanted} and {row.halted for row in wanted} == {True, False}
    assert len({len(row.answer_ids) for row in wanted}) > 2 and {row.ended for row in wanted} == {True, False}
    engine = FastEngine.of(backbone, thinker, GREEDY, slots=7)
    assert isinstance(engine.decoder, HFDecoder if family == "gpt2" else Decoder)
    assert_same(Scheduler(engine).run_all(prompts), wanted)


@pytest.mark.parametrize("options", cases(__file__, "options"), ids=str)
def test_every_option_of_soft_tokens_agrees(options, make_backbone):
    backbone, prompts = make_backbone("qwen2"), many_prompts(30, seed=2)
    thinker = soft(backbone, **options)
    assert_same(run(backbone, thinker, prompts, GREEDY), generate(backbone, thinker, prompts, GREEDY))


def test_returned_latents_agree(make_backbone):
    backbone, prompts = make_backbone("llama"), many_prompts(25, seed=6)
    thinker = soft(backbone)
    wanted = generate(backbone, thinker, prompts, GREEDY, keep_latents="all")
    found = run(backbone, thinker, prompts, GREEDY, options=EngineOptions(keep="all"))
    assert any(row.latent_embeds for row in found) and any(row.latent_logits for row in found)
    assert_same(found, wanted)


@pytest.mark.parametrize("release", [False, True], ids=["copy", "release"])
@pytest.mark.parametrize("tied", [False, True], ids=["untied", "tied"])
def test_an_adapter_is_merged(tied, release, make_backbone):
    backbone, prompts = make_backbone("llama", adapted=True, tied=tied), many_prompts(30, seed=7)
    thinker = soft(backbone)
    assert backbone.adapted is not None
    wanted = generate(backbone, thinker, prompts, GREEDY)
    assert_same(run(backbone, thinker, prompts, GREEDY, options=EngineOptions(release=release)), wanted)
    assert hasattr(backbone.model, "peft_config") != release and (backbone.adapted is None) == release
    own = thinker if not release else soft(backbone, halt_threshold=thinker.halt_threshold)
    assert_same(generate(backbone, own, prompts, GREEDY), wanted)  # the model itself is still usable


def test_released_weights_exist_once(make_backbone):
    backbone = make_backbone("llama")
    decoder = Decoder.of(backbone, release=True)
    attention, fused = backbone.plain_model.model.layers[0].self_attn, decoder.weights.layers[0].qkv.weight
    assert attention.q_proj.weight.data_ptr() == fused.data_ptr()
    assert attention.v_proj.weight.untyped_storage().data_ptr() == fused.untyped_storage().data_ptr()
    again = Decoder.of(backbone, release=True)
    assert again.weights.layers[0].qkv.weight.data_ptr() == fused.data_ptr(), "a second engine shares them"
    assert torch.equal(again.weights.layers[1].gate_up.weight, decoder.weights.layers[1].gate_up.weight)


def test_a_model_with_llama_structure_but_other_outputs_runs_its_own_forward(make_backbone):
    backbone = make_backbone("llama")
    attention = backbone.plain_model.model.layers[1].self_attn
    attention.scaling = 0.5 * attention.scaling  # as some architectures do
    assert Decoder.of(backbone) is None
    thinker, prompts = soft(backbone), many_prompts(10)
    assert_same(run(backbone, thinker, prompts, GREEDY), generate(backbone, thinker, prompts, GREEDY))


def test_questions_with_different_decoding_share_slots(make_backbone):
    backbone, prompts = make_backbone("llama"), many_prompts(12, seed=10)
    thinker = soft(backbone)
    short = replace(SAMPLED, temperature=0.5, max_answer_tokens=2)
    ways = [GREEDY, SAMPLED, short, replace(GREEDY, max_answer_tokens=1)]
    scheduler = Scheduler(FastEngine.of(backbone, thinker, GREEDY, slots=3))
    tickets = [submit(scheduler, p, key=i, decoding=ways[i % 4]) for i, p in enumerate(prompts)]
    finish(scheduler)
    for i, (prompt, ticket) in enumerate(zip(prompts, tickets, strict=True)):
        assert_same([ticket.result()], generate(backbone, thinker, [prompt], ways[i % 4], keys=[i]))


class EagerGraphs:
    """Stands in for CUDA graphs, which need a GPU: runs the work when it would be replayed."""

    def __init__(self):
        self.keys = set()

    def run(self, key, work):
        self.keys.add(key)
        return work()


class LateSnapshots(Snapshots):
    """Snapshots that are copies and are read one step later, as on a GPU."""

    def take(self):
        self.waiting.append((self.count, self.of.clone(), None))
        self.count += 1


@pytest.mark.parametrize(
    ("kind", "decoding"),
    [("soft", GREEDY), ("soft", SAMPLED), ("text", SAMPLED), ("none", GREEDY), ("gaussian", NOISY), ("other", GREEDY)],
    ids=["soft", "soft sampled", "text sampled", "none", "gaussian noise", "other"],
)
def test_buckets_and_late_snapshots_change_nothing(kind, decoding, make_backbone):
    backbone, prompts = make_backbone("llama"), many_prompts(60, seed=13)
    thinker = {
        "soft": soft(backbone),
        "text": TextThinker(backbone.embedding, backbone.end_think_id, cap=6),
        "none": NoThinker(),
        "gaussian": GaussianThinker(LatentHead(32, 48).eval(), 0.2, backbone.end_think_id, "sample", cap=6),
        "other": HashedThinker(backbone.embedding, backbone.end_think_id, cap=6),
    }[kind]
    engine = FastEngine.of(backbone, thinker, decoding, slots=7)
    engine.graphs, engine.snapshots = EagerGraphs(), LateSnapshots(engine.state.rows, lag=1)
    assert_same(Scheduler(engine).run_all(prompts), generate(backbone, thinker, prompts, decoding))
    steps = {key[-2:] for key in engine.graphs.keys if "step" in key}
    assert {rows for rows, _ in steps} <= {1, 2, 4, 7} and {used for _, used in steps} == {64}
    assert any("prefill" in key for key in engine.graphs.keys)
    # only a thinker that is not known to be captured decides outside its graph
    assert all(("logits" in key) == (kind == "other") for key in engine.graphs.keys)


class NoReads(TorchDispatchMode):
    """Refuses what a CUDA graph cannot capture: operators that the host waits for."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        assert function.overloadpacket.__name__ not in ("_local_scalar_dense", "nonzero"), function
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("decoding", [GREEDY, SAMPLED, NOISY], ids=["greedy", "sampled", "noise"])
def test_the_host_waits_for_no_decision(decoding, make_backbone):
    backbone = make_backbone("llama")
    gaussian = GaussianThinker(LatentHead(32, 48).eval(), 0.2, backbone.end_think_id, "sample", cap=6)
    noise = Noise.of([decoding] * 3, range(3))
    hidden, logits, made = torch.randn(3, 32), torch.randn(3, len(backbone.embedding_weight)), torch.arange(3)
    uniform = torch.rand(3, dtype=torch.float64) if decoding.temperature else None
    with torch.no_grad(), NoReads():
        for thinker in (gaussian, soft(backbone)):
            thinker.next(logits, hidden, made, *([noise] if noise else []))
        pick(logits, decoding.temperature, decoding.top_p, uniform)


def test_a_padded_logit_never_wins():
    """All real logits are negative, those of padding rows would be 0."""
    table, x = torch.ones(70, 4), -torch.ones(2, 4)
    tied, head = padded(table, Linear(table))
    assert head.weight.shape == (128, 4) and tied.data_ptr() == head.weight.data_ptr() and torch.equal(tied, table)
    decoder = Decoder(SimpleNamespace(table=tied, head=head))
    assert torch.equal(decoder.logits(x), torch.full((2, 70), -4.0)) and decoder.logits(x).is_contiguous()
    assert padded(table[:64], Linear(table[:64]))[1].weight.shape == (64, 4)
