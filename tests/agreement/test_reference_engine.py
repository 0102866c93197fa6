"""Cached decoding equals one parallel forward; how many passes a thought takes; how it ends: at once, by itself, or at the cap."""

from dataclasses import replace

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ruplar.engine.reference import generate
from ruplar.engine.sampling import Decoding
from ruplar.engine.thinker import NoThinker, ReplayThinker, TextThinker

DECODING = Decoding(max_answer_tokens=4)


def test_without_a_thought_forwards_are_the_answer_tokens(backbone, prompts):
    for row in generate(backbone, NoThinker(), prompts, DECODING):
        assert row.forwards == len(row.answer_ids) and row.latent_count == 0 and row.halted


def test_a_thought_that_halts_at_once_has_no_latents(backbone, thinker, prompts):
    rows = generate(backbone, replace(thinker, halt_threshold=0.0), prompts, DECODING, keep_latents="all")
    plain = generate(backbone, NoThinker(), prompts, DECODING)
    for row, expected in zip(rows, plain, strict=True):
        assert (row.latent_count, row.latent_embeds, row.halted) == (0, [], True)
        assert row.answer_ids == expected.answer_ids and row.answer_ids  # the same sequence, fed in two calls
        assert row.forwards == 1 + len(row.answer_ids)


@pytest.mark.parametrize("cap", [0, 3])
def test_the_cap_forces_the_end_marker(backbone, thinker, prompts, cap):
    rows = generate(backbone, replace(thinker, halt_threshold=0.999, cap=cap), prompts, DECODING)
    assert [(row.latent_count, row.halted) for row in rows] == [(cap, False)] * len(rows)


@pytest.mark.parametrize("cap", [3, 7])
def test_replayed_latents_give_the_same_answers(backbone, thinker, prompts, cap):
    # forced or chosen, </think> is the same token; with a cap of 3 every thought is cut off
    thinker = replace(thinker, cap=cap, halt_threshold=0.999 if cap == 3 else thinker.halt_threshold)
    rows = generate(backbone, thinker, prompts, DECODING, keep_latents="embeds")
    width = backbone.embedding_weight.shape[1]
    latents = [torch.stack(r.latent_embeds) if r.latent_embeds else torch.empty(0, width) for r in rows]
    again = generate(backbone, ReplayThinker(latents), prompts, DECODING)
    assert all(row.halted for row in again)
    for one, two in zip(again, rows, strict=True):
        assert (one.latent_count, one.answer_ids, one.forwards) == (two.latent_count, two.answer_ids, two.forwards)


def test_an_answer_ends_at_the_end_token_or_at_the_limit(backbone, thinker, prompts):
    cut = generate(backbone, thinker, prompts, Decoding(max_answer_tokens=5))
    assert all(len(row.answer_ids) == 5 and not row.ended for row in cut)
    said = cut[0].answer_ids
    backbone.markers = backbone.markers._replace(eos_id=said[2])  # now the same answer ends at its first occurrence
    row = generate(backbone, thinker, prompts, Decoding(max_answer_tokens=5))[0]
    assert row.answer_ids == said[: said.index(said[2]) + 1] and row.ended


def test_no_prompts_give_no_rows(backbone, thinker):
    assert generate(backbone, thinker, [], DECODING) == []


class HostReads(TorchDispatchMode):
    """Counts scalars read by the host; on a GPU each one synchronises."""

    count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += func is torch.ops.aten._local_scalar_dense.default
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("keep", ["none", "embeds", "all"])
def test_host_reads_do_not_grow_with_the_batch(backbone, thinker, prompts, keep):
    found = []
    for count in (1, 4):
        with HostReads() as reads:
            generate(
                backbone,
                replace(thinker, halt_threshold=0.999, cap=3),
                prompts[:1] * count,
                DECODING,
                keep_latents=keep,
            )
        found.append(reads.count)
    assert found[0] == found[1] > 0


def recorded_logits(backbone, monkeypatch) -> list[torch.Tensor]:
    """The logits [B, V] of every decode step."""
    rounds: list[torch.Tensor] = []
    head = backbone.logits

    def listen(hidden):
        rounds.append(head(hidden))
        return rounds[-1]

    monkeypatch.setattr(backbone, "logits", listen)
    return rounds


def parallel(backbone, prompt, row) -> torch.Tensor:
    """Logits from <think> on, [forwards, V], of one forward over [ prompt <think> z .. z </think> answer less its last ]."""
    embed = lambda ids: backbone.embedding(torch.tensor(ids, dtype=torch.long))  # noqa: E731
    thought = torch.stack(row.latent_embeds) if row.latent_embeds else embed([])
    parts = [
        embed([*prompt.ids, backbone.think_id]), thought, embed([backbone.end_think_id]), embed(row.answer_ids[:-1])
    ]  # fmt: skip
    embeds = torch.cat(parts)[None]
    with torch.inference_mode():
        hidden, _ = backbone.trunk(embeds, None, torch.arange(embeds.shape[1])[None])
        return backbone.logits(hidden[0, len(prompt.ids) :])


def test_cached_latents_equal_one_parallel_forward(backbone, thinker, prompts, monkeypatch):
    rounds = recorded_logits(backbone, monkeypatch)
    rows = generate(backbone, thinker, prompts, Decoding(max_answer_tokens=5), keep_latents="all")
    cached = torch.stack(rounds, dim=1)  # [B, rounds, V]
    monkeypatch.undo()
    assert len({row.latent_count for row in rows}) > 1, "rows should differ"
    for b, row in enumerate(rows):
        whole = parallel(backbone, prompts[b], row)
        assert len(whole) == row.forwards
        torch.testing.assert_close(cached[b, : row.forwards], whole, atol=1e-4, rtol=1e-4)
        assert whole[row.latent_count + 1 :].argmax(-1).tolist() == row.answer_ids
        for i, logits in enumerate(row.latent_logits):
            torch.testing.assert_close(logits, whole[i], atol=1e-4, rtol=1e-4)


def test_cached_text_equals_one_parallel_forward(backbone, prompts):
    writer = TextThinker(backbone.embedding, backbone.end_think_id, cap=6)
    rows = generate(backbone, writer, prompts, DECODING, keep_latents="embeds")
    assert any(row.thought_ids for row in rows)
    for prompt, row in zip(prompts, rows, strict=True):
        whole, n = parallel(backbone, prompt, row).argmax(-1).tolist(), len(row.latent_embeds)
        assert whole[:n] == row.thought_ids and whole[n + 1 :] == row.answer_ids
