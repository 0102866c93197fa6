"""The trainer: accumulation, what moves, what is logged."""

import json

import pytest
import torch
from pytest import approx

from ruplar.train import METRICS
from ruplar.train.progress import rows


def weights(trainer):
    return {name: p.detach().clone() for name, p in trainer.learner.named_parameters()}


def one_step(trainer, run, batch, accumulate, lora):
    made = trainer(
        run, per_device_train_batch_size=batch, gradient_accumulation_steps=accumulate, max_steps=1, rows=8, lora=lora,
        logging_steps=1, learning_rate=1e-2, max_grad_norm=1.0, optim="sgd",
    )  # fmt: skip
    made.train()
    return made


@pytest.mark.parametrize("lora", [None, {"rank": 4, "alpha": 8, "dropout": 0.0}])
def test_eight_batches_of_one_accumulate_to_exactly_one_batch_of_eight(trainer, tmp_path, lora):
    # plain SGD, so that a wrong scale of the gradient shows in the weights; Adam would hide it
    eight = one_step(trainer, tmp_path / "a", 1, 8, lora)
    whole = one_step(trainer, tmp_path / "b", 8, 1, lora)
    apart, together = weights(eight), weights(whole)
    for name in together:
        assert torch.allclose(apart[name], together[name], atol=1e-6, rtol=0), name
    row_a, row_b = rows(tmp_path / "a" / METRICS)[0], rows(tmp_path / "b" / METRICS)[0]
    for key in ("loss", "answer", "prior", "align", "grad_norm", "entropy", "halting", "label_accuracy"):
        assert row_a[key] == approx(row_b[key], rel=1e-5), key
    moved = [
        n for n, before in weights(trainer(tmp_path / "c", rows=8, lora=lora)).items() if not before.equal(apart[n])
    ]
    assert moved, "one step must move something, or the comparison above means nothing"


def test_only_the_adapter_moves_and_all_of_it_does(trainer):
    made = trainer(max_steps=4)
    before = weights(made)
    made.train()
    after = weights(made)
    moved = {name for name in before if not before[name].equal(after[name])}
    trainable = {name for name, p in made.learner.named_parameters() if p.requires_grad}
    assert moved == trainable
    assert len(trainable) == 2 * 7 * 2  # A and B of seven linear layers in two blocks


def test_the_logged_loss_is_the_sum_of_its_parts_and_falls(trainer, tmp_path):
    made = trainer(max_steps=30, logging_steps=10, rows=16, learning_rate=2e-2, lora=None)
    made.train()
    logged = rows(tmp_path / "run" / METRICS)
    assert [row["step"] for row in logged] == [10, 20, 30]
    for row in logged:
        assert row["loss"] == approx(row["answer"] + row["prior"] + row["align"])
        assert 0 <= row["halting"] <= 1 and 0 <= row["label_accuracy"] <= 1 and row["entropy"] > 0
        assert row["tokens_per_second"] > 0
    assert logged[-1]["answer"] < 0.7 * logged[0]["answer"]


def test_every_sample_has_its_epoch_and_progress(trainer):
    made = trainer(max_steps=-1, num_train_epochs=3, rows=8, prior="gumbel", per_device_train_batch_size=2)
    seen = []
    encode = made.dataset.method.encode
    made.dataset.method.encode = lambda e, tools, context: (seen.append(context), encode(e, tools, context))[1]
    made.train()
    # 4 steps of 2 rows an epoch, 12 in all
    assert [(context.epoch, context.progress) for context in seen] == [(i // 8, i // 2 / 12) for i in range(24)]
    assert [sorted(v.row for v in seen[e : e + 8]) for e in (0, 8, 16)] == [list(range(8))] * 3


def test_validation_selects_the_checkpoint_and_does_not_change_training(trainer, tmp_path):
    scores = iter([0.1, 0.9, 0.4])
    made = trainer(valid=True, max_steps=6, eval_strategy="steps", eval_steps=2, save_strategy="steps", save_steps=2)
    kept = {}

    def validate(backbone, method):
        torch.rand(1000)  # a validation that draws random numbers
        score = next(scores)
        kept[score] = weights(made)
        return {"accuracy": score, "latents": 2.0}

    made.validate = validate
    made.train()
    best = weights(made)
    assert all(best[name].equal(kept[0.9][name]) for name in best)
    assert made.state.best_model_checkpoint == str(tmp_path / "run" / "checkpoint-4")
    state = json.loads((tmp_path / "run" / "checkpoint-6" / "trainer_state.json").read_text())
    assert state["best_model_checkpoint"] == str(tmp_path / "run" / "checkpoint-4")
    # the same run without validation takes the same steps
    plain = trainer(tmp_path / "plain", max_steps=6)
    plain.train()
    last = weights(plain)
    assert all(last[name].equal(kept[0.4][name]) for name in last)


def test_nothing_is_printed(trainer, capfd):
    trainer(max_steps=2, valid=True, eval_strategy="steps", eval_steps=1, logging_steps=1).train()
    assert capfd.readouterr().out == ""


def test_dropout_is_on_in_training_off_in_validation_or_while_a_callback_asks_and_on_again(trainer):
    made = trainer(valid=True)
    modules = list(made.learner.modules())
    made.learner.train()  # models are read in for use, so this is a change
    assert all(module.training for module in modules)
    seen = []
    made.validate = lambda *_: seen.append(any(module.training for module in modules)) or {"accuracy": 0.0}
    made.evaluate()
    assert seen == [False]
    assert all(module.training for module in modules)
    made.learner.backbone.model.eval()  # as a reasoner does that a callback asks
    made.learner.train()
    assert all(module.training for module in modules)
