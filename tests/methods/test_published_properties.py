"""What the papers of CODI and CoLaR report of their methods."""

import pytest
import torch
from overfitting import answers_of, learn_by_heart, problems, tools_of

from ruplar import plugins
from ruplar.data.collate import collate
from ruplar.types import SampleContext


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
