"""A forward that makes several latents: what training lays out, the plain loop thinks, alone or beside others."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from ruplar.config import load_recipe
from ruplar.data.collate import collate
from ruplar.data.encoding import Encoder
from ruplar.engine.fast import FastEngine
from ruplar.engine.options import EngineOptions
from ruplar.engine.reference import generate
from ruplar.engine.sampling import Decoding
from ruplar.engine.scheduler import Scheduler
from ruplar.engine.thinker import NoThinker, ReplayThinker
from ruplar.errors import UserError
from ruplar.model.forward import embed, flat_hidden
from ruplar.priors.base import PriorTable
from ruplar.types import Example, SampleContext

DECODING = Decoding(max_answer_tokens=5)
WIDE = 3


@pytest.fixture
def asking(backbone) -> tuple[int, ...]:
    return tuple(backbone.prompt.plain(letter)[0] for letter in "ab")


@pytest.fixture
def blocks(backbone, thinker, asking, prompts):
    made = replace(thinker, asking=asking, halt_threshold=0.99, cap=10)  # three blocks, not four
    rows = generate(backbone, made, prompts, DECODING, keep_latents="all")
    seen = sorted(row.latent_logits[WIDE].softmax(-1)[backbone.end_think_id].item() for row in rows)
    return replace(made, halt_threshold=sum(seen[2:4]) / 2)  # half of the rows halt after one block, if not before


def laid_out(backbone, asking, prompt, row) -> torch.Tensor:
    """The embeddings of a whole question: `P <think> a b z z z a b </think> answer`, without the answer's last token."""
    embed = lambda ids: backbone.embedding(torch.tensor(list(ids), dtype=torch.long))  # noqa: E731
    parts = [embed([*prompt.ids, backbone.think_id, *asking])]
    for at in range(0, row.latent_count, WIDE):
        parts += [torch.stack(row.latent_embeds[at : at + WIDE]), embed(asking)]
    return torch.cat([*parts, embed([backbone.end_think_id, *row.answer_ids[:-1]])])


def test_blocks_are_one_parallel_forward_on_the_same_latents(backbone, blocks, asking, prompts):
    rows = generate(backbone, blocks, prompts, DECODING, keep_latents="all")
    assert len({row.latent_count for row in rows}) > 1, "the rows should part ways"
    assert {row.latent_count % WIDE for row in rows} == {0} and max(row.latent_count for row in rows) <= 9
    for prompt, row in zip(prompts, rows, strict=True):
        embeds = laid_out(backbone, asking, prompt, row)[None]
        with torch.inference_mode():
            whole = backbone.logits(backbone.trunk(embeds, None, torch.arange(embeds.shape[1])[None])[0][0])
        first = len(prompt.ids) + WIDE  # the first latent's place
        for i, logits in enumerate(row.latent_logits):
            at = first + i // WIDE * (2 * WIDE - 1) + i % WIDE
            torch.testing.assert_close(logits, whole[at - WIDE], atol=1e-4, rtol=1e-4)
        end = first + row.latent_count // WIDE * (2 * WIDE - 1)  # where </think> stands
        over = whole[end - WIDE].softmax(-1)[backbone.end_think_id] > blocks.halt_threshold
        assert bool(over) == row.halted
        assert whole[end:].argmax(-1).tolist() == row.answer_ids
        assert row.forwards == 1 + row.latent_count // WIDE + len(row.answer_ids)


def test_a_row_thinks_alike_alone_and_beside_others(backbone, blocks, prompts):
    rows = generate(backbone, blocks, prompts, DECODING, keep_latents="embeds")
    for prompt, row in zip(prompts, rows, strict=True):
        (alone,) = generate(backbone, blocks, [prompt], DECODING, keep_latents="embeds")
        assert (alone.answer_ids, alone.latent_count, alone.forwards) == (
            row.answer_ids,
            row.latent_count,
            row.forwards,
        )
        for one, other in zip(alone.latent_embeds, row.latent_embeds, strict=True):
            torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-4)


def test_replayed_blocks_give_the_same_answers_and_none_thinks_nothing(backbone, blocks, asking, prompts):
    rows = generate(backbone, blocks, prompts, DECODING, keep_latents="embeds")
    width = backbone.embedding_weight.shape[1]
    latents = [torch.stack(r.latent_embeds) if r.latent_embeds else torch.empty(0, width) for r in rows]
    again = generate(backbone, ReplayThinker(latents, asking=asking), prompts, DECODING)
    assert [(r.answer_ids, r.latent_count, r.forwards) for r in again] == [
        (r.answer_ids, r.latent_count, r.forwards) for r in rows
    ]
    nothing = generate(backbone, NoThinker(asking=asking), prompts, DECODING)
    empty = generate(backbone, ReplayThinker([latents[0][:0]] * len(rows), asking=asking), prompts, DECODING)
    assert [r.answer_ids for r in nothing] == [r.answer_ids for r in empty]
    assert {r.latent_count for r in nothing} == {0}


@pytest.mark.parametrize("slots", [1, 4])
def test_the_fast_loop_thinks_the_same_blocks(family, backbone, blocks, prompts, slots):
    wanted = generate(backbone, blocks, prompts, DECODING, keep_latents="all")
    engine = FastEngine.of(backbone, blocks, DECODING, slots, EngineOptions(keep="all"))
    if family == "gpt2":
        assert engine is None, "its own forward takes one column a step"
        return
    for row, other in zip(Scheduler(engine).run_all(prompts), wanted, strict=True):
        assert (row.answer_ids, row.latent_count, row.forwards) == (
            other.answer_ids,
            other.latent_count,
            other.forwards,
        )
        assert (row.halted, row.ended) == (other.halted, other.ended)
        for kept in ("latent_embeds", "latent_logits"):
            for one, same in zip(getattr(row, kept), getattr(other, kept), strict=True):
                torch.testing.assert_close(one, same, atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("how", ["noise", "none", "replay", "halt"])
def test_the_fast_loop_thinks_blocks_in_every_way_the_plain_one_does(family, backbone, blocks, asking, prompts, how):
    if family == "gpt2":
        pytest.skip("runs in the plain loop")
    thinker, decoding = blocks, DECODING
    if how == "noise":
        decoding = replace(DECODING, noise=0.5, temperature=0.7, seed=3)
    if how == "halt":
        decoding = replace(DECODING, halt_threshold=blocks.halt_threshold * 0.9)
    if how == "none":
        thinker = NoThinker(asking=asking)
    if how == "replay":
        draw = torch.Generator().manual_seed(1)
        thinker = ReplayThinker([0.3 * torch.randn(3 * (i % 3), 32, generator=draw) for i in range(6)], asking=asking)
    wanted = generate(backbone, thinker, prompts, decoding)
    found = Scheduler(FastEngine.of(backbone, thinker, decoding, 3)).run_all(prompts)
    assert [(r.answer_ids, r.latent_count, r.forwards) for r in found] == [
        (r.answer_ids, r.latent_count, r.forwards) for r in wanted
    ]


def made_for(backbone, *overrides: str):
    config = load_recipe("ruplar", ["method.input_noise=0", "method.block=6", *overrides], check_files=False)
    method = config.method.make()
    method.attach(backbone)
    table = PriorTable(config.prior.make(), backbone.prompt.plain, config.seed)
    ids = backbone.think_id, backbone.end_think_id, backbone.eos_id
    return method, Encoder(backbone.prompt, *ids, config.data.domain.make(), config.spans.make(), table)


@pytest.mark.parametrize("steps", [("3+4=7", "7*2=14"), ("3+4=7",), ()])
def test_training_reads_each_latent_where_thinking_makes_it(backbone, steps):
    method, tools = made_for(backbone, "spans=ahead")
    example = Example("How many?", steps, "14")
    item = method.encode(example, tools, SampleContext(0, 0))
    asking, prompt = list(method.thinker(backbone).asking), backbone.prompt("How many?")
    blank = [*[backbone.think_id] * 6, *asking] * len(steps)
    answer = tools.answer("14")
    assert item.ids == [*prompt.ids, backbone.think_id, *asking, *blank, backbone.end_think_id, *answer]
    assert len(item.labels) == len(item.ids) and len(item.latent_at) == len(item.priors) == 6 * len(steps)
    halt = item.labels.index(backbone.end_think_id)
    last = item.latent_at[-1] if steps else len(prompt.ids)
    assert halt == last + 1, "decided on by what was read at the last latent, or at <think>"
    assert item.labels[-len(answer) :] == answer and sum(label != -100 for label in item.labels) == 1 + len(answer)
    batch = collate([item], backbone.pad_id)
    loss = method.loss(backbone, batch)
    assert torch.isfinite(loss.total)
    if steps:  # the first latent of a block is read where the block before ends
        assert [at - 6 for at in item.latent_at[:2]] == [len(prompt.ids), len(prompt.ids) + 1]
        hidden, _ = flat_hidden(backbone, batch, embeds=embed(backbone, batch, None))
        said = backbone.logits(hidden[batch.latent_at - 6]).log_softmax(-1).gather(1, batch.prior_ids)
        sure = batch.prior_probs > 0
        kl = (batch.prior_probs * (batch.prior_probs.clamp_min(1e-30).log() - said))[sure].sum() / len(item.latent_at)
        torch.testing.assert_close(loss.parts["prior"], kl, atol=1e-4, rtol=1e-4)


def test_latents_that_are_no_whole_blocks_are_refused(backbone):
    method, tools = made_for(backbone, "spans=step")
    with pytest.raises(
        UserError, match=r"method.block is 6, but a chain has 2 latents.*spans: \{name: ahead, width: 6\}"
    ):
        method.encode(Example("How many?", ("3+4=7", "7*2=14"), "14"), tools, SampleContext(0, 0))
