"""The reinforcement stage: advantages within a group, a clipped loss, and a reward that rises."""

import json
import math
import sys
from pathlib import Path

import pytest
import torch
from cases import cases
from transformers import TrainerCallback

sys.path.insert(0, str(Path(__file__).parents[1] / "methods"))
from overfitting import learn_by_heart, problems  # noqa: E402

from ruplar import plugins  # noqa: E402
from ruplar.config import from_dict  # noqa: E402
from ruplar.data.collate import collate  # noqa: E402
from ruplar.errors import UserError  # noqa: E402
from ruplar.methods.colar import GrpoConfig  # noqa: E402
from ruplar.model.forward import embed, flat_hidden  # noqa: E402
from ruplar.model.store import Model, load_model  # noqa: E402
from ruplar.train.grpo import Reinforcer, advantages, clipped, draw, policy_loss  # noqa: E402
from ruplar.train.run import TrainingRun, train  # noqa: E402

ROUND = GrpoConfig(questions=8, group=8, rows=16, learning_rate=2e-3, max_answer_tokens=3)


def test_advantages_are_standard_deviations_from_the_group_mean():
    found = advantages(torch.tensor([[1.0, 0.0, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0]]))
    # mean 1/4, sample variance (9/16 + 3/16) / 3 = 1/4, so 3/4 over 1/2 and -1/4 over 1/2; no spread, no advantage
    assert found[0].tolist() == pytest.approx([1.5, -0.5, -0.5, -0.5], abs=1e-6)
    assert found[1].tolist() == [0, 0, 0, 0]


def test_a_choice_beyond_the_clip_range_gets_no_gradient():
    old, advantage = torch.zeros(4), torch.tensor([1.0, 1.0, -1.0, -1.0])
    new = torch.tensor([1.1, 1.5, 0.9, 0.5]).log().requires_grad_()
    loss = clipped(new, old, advantage, 0.2)
    assert loss.tolist() == pytest.approx([-1.1, -1.2, 0.9, 0.8])
    loss.sum().backward()
    # inside the bounds the gradient is -ratio × advantage; beyond them there is none
    assert new.grad.tolist() == pytest.approx([-1.1, 0.0, 0.9, 0.0])
    # a choice that went the wrong way is always pulled back
    wrong = clipped(torch.tensor([0.5]).log(), torch.zeros(1), torch.tensor([1.0]), 0.2)
    assert wrong.item() == pytest.approx(-0.5)


@pytest.fixture(scope="module")
def taught():
    """A model that has half learnt eight problems, thinking in at most 3 latents that are worth drawing."""
    method = plugins.make("methods", "colar", {"latent_loss": "nll", "max_latents": 3})
    found = learn_by_heart(method, steps=22, examples=problems(8, (1, 1)))
    return Model(found.backbone, method, plugins.make("domains", "arithmetic"), None)


def test_thoughts_are_drawn_in_groups_and_their_probabilities_are_those_they_were_drawn_with(taught):
    examples = problems(8, (1, 1))[:2]
    drawn = draw(taught, examples, ROUND, seed=1, number=1)
    assert len(drawn) == 16 and len({tuple(map(tuple, d.item.features)) for d in drawn}) == 16
    again = draw(taught, examples, ROUND, seed=1, number=1)
    assert [d.item.ids for d in again] == [d.item.ids for d in drawn]
    batch = collate([d.item for d in drawn], taught.backbone.pad_id)
    with torch.no_grad():
        latents, labels = taught.method.policy(taught.backbone, batch)
    assert len(latents) == sum(d.latents for d in drawn) and len(labels) == len(batch.label_ids)
    one = collate([drawn[0].item], taught.backbone.pad_id)
    alone, _ = taught.method.policy(taught.backbone, one)
    torch.testing.assert_close(alone.detach(), latents[: drawn[0].latents], atol=1e-4, rtol=1e-4)
    # a draw's standardised distance is a standard normal, so at std 1 its log density is -(1 + ln 2π)/2 on average
    with torch.no_grad():
        hidden = flat_hidden(
            taught.backbone, batch, embeds=embed(taught.backbone, batch, batch.features * taught.method.config.sigma)
        )
        _, log_std = taught.method.head(hidden[batch.latent_at - 1])
    expected = -(1 + math.log(2 * math.pi)) / 2 - log_std.mean().item()
    assert latents.mean().item() == pytest.approx(expected, abs=0.05)


def test_a_halt_that_was_forced_is_not_reinforced(taught):
    drawn = draw(taught, problems(8, (1, 1)), ROUND, seed=2, number=1)
    end = taught.backbone.end_think_id
    for d in drawn:
        closing = d.item.latent_at[-1] + 1
        assert d.item.ids[closing] == end and d.item.labels[closing] in (end, -100)
        assert d.item.labels[closing] == end or d.latents == 3
    assert {d.item.labels[d.item.latent_at[-1] + 1] for d in drawn} == {end, -100}


def test_the_loss_is_averaged_over_a_thought(taught):
    drawn = draw(taught, problems(8, (1, 1))[:1], ROUND, seed=1, number=3)
    batch = collate([d.item for d in drawn], taught.backbone.pad_id)
    with torch.no_grad():
        old = taught.method.policy(taught.backbone, batch)
    advantage = torch.arange(len(drawn), dtype=torch.float32)
    # nothing has moved, so every term is minus its row's advantage
    mean = policy_loss(old, old, batch, advantage)
    assert mean["latent"].item() == mean["answer"].item() == pytest.approx(-advantage.mean().item())


def test_right_answers_become_more_frequent(taught):
    worker = Reinforcer(taught, problems(8, (1, 1)), ROUND, seed=1)
    rewards = [worker.round(number)["reward"] for number in range(1, 13)]
    assert rewards[0] < 0.5, "there must be something to learn"
    assert sum(rewards[-3:]) / 3 > rewards[0] + 0.2
    assert worker.steps > 12 and worker.tokens > 0


def recipe(init, grpo):
    made = cases(__file__, "recipe")
    made["backbone"]["init"], made["method"]["grpo"] = init, grpo
    return from_dict(made)


@pytest.mark.slow
def test_grpo_starts_from_a_trained_model_and_again_from_it_when_it_was_killed(tmp_path):
    first = train(recipe(None, None), output=tmp_path / "first").path
    settings = {"rounds": 2, "questions": 2, "group": 2, "validate_every": 1, "max_answer_tokens": 4}
    config, second = recipe(str(tmp_path / "first"), settings), tmp_path / "second"
    shown, ends, called = [], [], TrainerCallback()
    called.on_step_end = lambda args, state, control, **_: ends.append(state.global_step)

    def killed(progress):
        if shown.append(progress) or "reward" in progress.row:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(config, output=second, progress=killed)
    assert [(p.step, p.steps, "eval_accuracy" in p.row) for p in shown[:2]] == [(0, 2, False), (0, 2, True)]
    result = train(config, output=second, resume=True)
    TrainingRun(config, tmp_path / "third").train(callbacks=[called], progress=lambda p: p.step == 1)
    assert ends == [1], "a true result ends it"
    assert json.loads((second / "start.json").read_text()).keys() == {f"start: {tmp_path / 'first'}"}
    texts = ((tmp_path / run / "metrics.jsonl").read_text() for run in ("second", "third"))
    rows, third = ([json.loads(line) for line in text.splitlines()] for text in texts)
    assert rows[:3] == third
    assert [(row["kind"], row["step"]) for row in rows] == [
        ("valid", 0), ("train", 1), ("valid", 1), ("train", 2), ("valid", 2),
    ]  # fmt: skip
    assert {"reward", "accuracy", "latents", "loss", "latent", "answer"} <= set(rows[1])
    before, after = load_model(first), load_model(result.path)
    assert after.method.config.sigma == before.method.config.sigma
    assert result.best_accuracy is not None


def test_grpo_needs_a_trained_model_of_its_method(tmp_path):
    with pytest.raises(UserError, match="method.grpo starts from a trained model of method 'colar'"):
        train(recipe("embedded:no_cot", {"rounds": 1}), output=tmp_path / "run")
