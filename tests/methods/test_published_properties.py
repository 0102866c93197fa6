"""What the baselines' papers report of their methods, on tasks a CPU learns in half a minute."""

import itertools
import random

import pytest
import torch
from overfitting import answers_of, learn_by_heart, problems, small_backbone, tools_of

from ruplar import plugins
from ruplar.data.collate import collate
from ruplar.types import Example, SampleContext

STEPS, BATCH, HELD_OUT = 350, 64, 100


def sums() -> list[Example]:
    """All sums of three digits with their chains, shuffled."""
    made = [
        Example(f"{a}+{b}+{c}?", (f"{a}+{b}={a + b}", f"{a + b}+{c}={a + b + c}"), str(a + b + c))
        for a, b, c in itertools.product(range(1, 10), repeat=3)
    ]
    random.Random(0).shuffle(made)
    return made


def trained(method):
    """Train all weights of a random two-layer Llama on the sums but those held out."""
    backbone, examples, draw = small_backbone(), sums()[HELD_OUT:], random.Random(1)
    tools = tools_of(backbone)
    method.attach(backbone)
    weights = [*backbone.model.parameters(), *(w for m in method.modules().values() for w in m.parameters())]
    optimizer = torch.optim.AdamW(weights, lr=3e-3, weight_decay=0.0)
    for step in range(STEPS):
        rows = draw.sample(range(len(examples)), BATCH)
        items = [method.encode(examples[row], tools, SampleContext(step, row, step / STEPS)) for row in rows]
        optimizer.zero_grad()
        method.loss(backbone, collate(items, backbone.pad_id)).total.backward()
        torch.nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
    return backbone


def asked(backbone, method) -> tuple[float, float]:
    """Accuracy on the held-out sums, and latents or written tokens per question."""
    examples = sums()[:HELD_OUT]
    rows = answers_of(backbone, method, [example.question for example in examples])
    said = [backbone.tokenizer.decode(row.answer_ids[:-1]) for row in rows]
    right = sum(text == example.answer for text, example in zip(said, examples, strict=True))
    return right / HELD_OUT, sum(row.latent_count + len(row.thought_ids) for row in rows) / HELD_OUT


@pytest.mark.slow
def test_codis_teacher_copies_the_answer_where_its_chain_has_the_last_step():
    from ruplar.model.forward import flat_hidden
    from ruplar.model.store import load_model

    backbone = load_model("embedded:cot").backbone
    tools, certainty = tools_of(backbone), {}
    for whole in (False, True):
        method = plugins.make("methods", "codi", {"include_last_step": whole})
        teachers = [
            method.encode(example, tools, SampleContext(0, row)).also["teacher"][0]
            for row, example in enumerate(problems(48, steps=(2, 3)))
        ]
        batch = collate(teachers, backbone.pad_id)
        with (
            torch.no_grad()
        ):  # the mark is the position that predicts the answer, and that the student is trained towards
            chances = backbone.logits(flat_hidden(backbone, batch)[batch.mark_at]).float().softmax(-1)
        answers = torch.tensor([item.ids[item.mark_at[0] + 1] for item in teachers])
        certainty[whole] = chances[torch.arange(len(answers)), answers].mean().item()
    assert certainty[True] > 0.95 > 0.8 > certainty[False]


@pytest.mark.long
def test_icots_accuracy_survives_the_removal_of_the_chain_token_by_token():
    method = plugins.make("methods", "icot", {"remove_all_from": 16, "removed_by": 0.6})
    accuracy, written = asked(trained(method), method)
    assert accuracy > 0.5 and written == 0, "chance is below 0.1"


@pytest.mark.long
def test_coconut_answers_from_hidden_states_alone_after_its_stages():
    method = plugins.make("methods", "coconut", {"max_stage": 2, "latents_per_step": 1, "latent_by": 0.6})
    accuracy, latents = asked(trained(method), method)
    assert accuracy > 0.5 and latents == 2


@pytest.mark.slow
def test_one_colar_model_answers_at_every_speed():
    method, examples = plugins.make("methods", "colar", {"max_speed": 5}), problems()
    backbone, lengths = learn_by_heart(method, steps=150).backbone, []
    for speed in (1, 2, 5):
        method.config = method.config.model_copy(update={"speed": speed})
        rows = answers_of(backbone, method, [example.question for example in examples])
        said = [backbone.tokenizer.decode(row.answer_ids[:-1]) for row in rows]
        assert said == [example.answer for example in examples], speed
        lengths.append(sum(row.latent_count for row in rows))
    assert lengths[0] > lengths[1] > lengths[2] and lengths[0] > 2 * lengths[2], "fewer latents at a higher speed"
