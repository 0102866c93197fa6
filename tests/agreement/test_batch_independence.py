"""A question in a padded batch gives the same result as at batch size 1."""

import pytest
from toys import assert_same

from ruplar.engine.reference import generate
from ruplar.engine.sampling import Decoding

GREEDY = Decoding(max_answer_tokens=5)
SAMPLED = Decoding(temperature=1.0, top_p=0.9, seed=3, max_answer_tokens=5)


@pytest.mark.parametrize("decoding", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
def test_a_row_does_not_depend_on_the_rows_beside_it(backbone, thinker, prompts, decoding):
    together = generate(backbone, thinker, prompts, decoding, keys=range(10, 16), keep_latents="embeds")
    assert len({row.latent_count for row in together}) > 1 and len({len(p.ids) for p in prompts}) > 1
    for places in ([0], [1], [2], [3], [4], [5], [5, 0, 3], [1, 2]):
        keys = [10 + i for i in places]
        some = generate(backbone, thinker, [prompts[i] for i in places], decoding, keys, keep_latents="embeds")
        assert_same(some, [together[place] for place in places], 1e-5)


def test_a_sampled_answer_depends_on_its_seed_and_its_key(backbone, thinker, prompts):
    def said(seed: int, keys: list[int]):
        decoding = Decoding(temperature=2.0, seed=seed, max_answer_tokens=8)
        return [row.answer_ids for row in generate(backbone, thinker, prompts[:2], decoding, keys=keys)]

    assert said(0, [0, 1]) == said(0, [0, 1])
    assert said(0, [0, 1]) != said(1, [0, 1])
    assert said(0, [0, 1])[0] != said(0, [7, 1])[0] and said(0, [0, 1])[1] == said(0, [7, 1])[1]
