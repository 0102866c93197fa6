"""A question in a padded batch gives the same result as at batch size 1."""

from __future__ import annotations

import pytest
import torch

from ruplar.engine.reference import generate, left_pad
from ruplar.engine.sampling import Decoding
from ruplar.engine.thinker import NoThinker, TextThinker

GREEDY = Decoding(max_answer_tokens=5)
SAMPLED = Decoding(temperature=1.0, top_p=0.9, seed=3, max_answer_tokens=5)


def assert_same(first, second):
    assert (first.latent_count, first.answer_ids, first.thought_ids) == (
        second.latent_count, second.answer_ids, second.thought_ids,
    )  # fmt: skip
    assert (first.forwards, first.halted, first.ended) == (second.forwards, second.halted, second.ended)
    for a, b in zip(first.latent_embeds, second.latent_embeds, strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("decoding", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
def test_a_row_does_not_depend_on_the_rows_beside_it(backbone, thinker, prompts, decoding):
    together = generate(backbone, thinker, prompts, decoding, keys=range(10, 16), keep_latents="embeds")
    assert len({row.latent_count for row in together}) > 1 and len({len(p.ids) for p in prompts}) > 1
    for places in ([0], [1], [2], [3], [4], [5], [5, 0, 3], [1, 2]):
        keys = [10 + i for i in places]
        some = generate(backbone, thinker, [prompts[i] for i in places], decoding, keys, keep_latents="embeds")
        for place, row in zip(places, some, strict=True):
            assert_same(row, together[place])


def test_text_thinker_and_no_thinker_do_not_depend_on_the_batch(backbone, prompts):
    for thinker in (TextThinker(backbone.embedding, backbone.end_think_id, cap=6), NoThinker()):
        together = generate(backbone, thinker, prompts, GREEDY)
        for prompt, row in zip(prompts, together, strict=True):
            assert_same(generate(backbone, thinker, [prompt], GREEDY)[0], row)


def test_a_sampled_answer_depends_on_its_seed_and_its_key(backbone, thinker, prompts):
    def said(seed: int, keys: list[int]):
        decoding = Decoding(temperature=2.0, seed=seed, max_answer_tokens=8)
        return [row.answer_ids for row in generate(backbone, thinker, prompts[:2], decoding, keys=keys)]

    assert said(0, [0, 1]) == said(0, [0, 1])
    assert said(0, [0, 1]) != said(1, [0, 1])
    assert said(0, [0, 1])[0] != said(0, [7, 1])[0] and said(0, [0, 1])[1] == said(0, [7, 1])[1]


def test_left_padding():
    ids, mask = left_pad([[5, 6, 7], [8]], pad_id=0, device="cpu")
    assert ids.tolist() == [[5, 6, 7], [0, 0, 8]]
    assert mask.tolist() == [[1, 1, 1], [0, 0, 1]]
