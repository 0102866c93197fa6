"""The published procedure computes what ours does where both are asked the same, so that times compare equal work."""

import pytest
import torch

from ruplar import plugins
from ruplar.bench import published, shapes
from ruplar.bench.latency import Lengths, fixed_length_thinker
from ruplar.bench.train import TrainOptions, random_items
from ruplar.data.collate import collate
from ruplar.engine.reference import generate
from ruplar.engine.sampling import Decoding
from ruplar.engine.thinker import SoftThinker
from ruplar.model.backbone import Backbone
from ruplar.types import Markers

PAD, EOS, THINK, END = 0, 1, 62, 63


@pytest.fixture
def halting(tiny_model):
    """A random model that ends some thoughts and some answers by itself."""
    model = tiny_model("llama", 64, tied=False)
    with torch.no_grad():
        model.get_output_embeddings().weight[END] *= 2.2
        model.get_output_embeddings().weight[EOS] *= 4
    model.generation_config.eos_token_id = None
    return Backbone(model, None, None, Markers(THINK, END, EOS), PAD)


def test_it_thinks_and_answers_as_the_plain_loop_does_with_the_whole_vocabulary(halting):
    prompts = shapes.random_prompts(halting, [5, 9, 14, 7, 11, 6, 8, 13, 10, 12])
    thinker = SoftThinker(halting.embedding, END, halt="argmax", top_k=0, drop_halt=False, cap=4)
    decoding = Decoding(max_answer_tokens=6)
    wanted = [generate(halting, thinker, [prompt], decoding, keep_latents="embeds")[0] for prompt in prompts]
    counts = {len(w.latent_embeds) for w in wanted}
    assert len(counts) > 1 and len({len(w.answer_ids) for w in wanted}) > 1, "the model is to end at different places"
    for prompt, want in zip(prompts, wanted, strict=True):
        latents, answer = published.ask(halting, prompt, max_latents=4, answer_tokens=6)
        assert answer == want.answer_ids
        assert len(latents) == want.latent_count
        for ours, theirs in zip(want.latent_embeds, latents, strict=True):
            assert torch.allclose(ours, theirs, atol=1e-5)


def test_forced_lengths_are_kept_by_both(tiny_shape):
    backbone = shapes.build(tiny_shape, "cpu", torch.float32)
    lengths = Lengths(prompt=12, latents=3, answer=5)
    prompts = shapes.random_prompts(backbone, [12] * 6)
    for prompt in prompts:
        latents, answer = published.ask(backbone, prompt, lengths.latents, lengths.answer, halts=False)
        assert (len(latents), len(answer)) == (3, 5)
    for row in generate(backbone, fixed_length_thinker(backbone, lengths), prompts, Decoding(max_answer_tokens=5)):
        assert (row.latent_count, len(row.answer_ids), row.forwards) == (3, 5, lengths.forwards)


def test_the_training_loss_with_dense_priors_is_ours(tiny_shape):
    backbone = shapes.build(tiny_shape, "cpu", torch.float32)
    items = random_items(backbone, TrainOptions(batch=2, latents=3, answer=4), seed=0)
    items += random_items(backbone, TrainOptions(batch=1, latents=1, answer=6), seed=1)
    items += random_items(backbone, TrainOptions(batch=1, latents=0, answer=2), seed=2)
    method = plugins.make("methods", "ruplar", {"align_normalize": False})
    ours = method.loss(backbone, collate(items, PAD))
    theirs = published.training_loss(backbone, published.dense_batch(items, PAD, 64, torch.float32))
    assert float(theirs.detach()) == pytest.approx(float(ours.total.detach()), rel=1e-5)
    assert min(float(part.detach()) for part in ours.parts.values()) > 0.01  # none of the three is idle
    ours.total.backward()
    grads = {n: p.grad.clone() for n, p in backbone.model.named_parameters() if "layers" in n}
    backbone.model.zero_grad()
    theirs.backward()
    for name, parameter in backbone.model.named_parameters():
        if "layers.1." in name:  # layers alone: the embedding is detached in theirs
            assert torch.allclose(parameter.grad, grads[name], atol=1e-5), name
