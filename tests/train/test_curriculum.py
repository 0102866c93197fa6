"""Stages of a run: every row of a step is at the same one, the optimiser starts afresh, the last one is chosen from."""

import pytest
import torch
from transformers import TrainerCallback

STAGED = {"name": "coconut", "latent_by": 0.6}
"""Of 15 steps: stage 1 up to step 3, 2 up to 6, 3 up to 9, then the last; 2, 4, 6, 6 latents."""


def counts(loader):
    """Latents a row of each batch."""
    return [len(batch["latent_at"]) / len(batch["ids"]) for batch in loader]


@pytest.mark.parametrize("workers", [0, 2])
def test_every_row_of_an_optimiser_step_has_its_stage_with_any_prefetching(trainer, workers):
    # 64 rows, 2 batches of 2 a step: 16 steps an epoch; the run is 15 long
    made = trainer(
        method=STAGED, max_steps=15, per_device_train_batch_size=2, gradient_accumulation_steps=2,
        dataloader_num_workers=workers, dataloader_prefetch_factor=4 if workers else None,
    )  # fmt: skip
    loader = made.get_train_dataloader()
    made.order.set_epoch(0)
    assert counts(loader)[:30] == [2] * 6 + [4] * 6 + [6] * 18


@pytest.mark.parametrize("reset", [True, False])
def test_the_optimizer_state_is_reset_where_the_stage_rises(trainer, reset):
    made = trainer(method={**STAGED, "reset_optimizer": reset}, max_steps=15)
    taken = []

    class Watch(TrainerCallback):
        def on_step_end(self, args, state, control, optimizer=None, **kwargs):
            taken.append(int(next(iter(optimizer.state.values()))["step"]))

    made.add_callback(Watch())
    made.train()
    # Adam's own count of steps: three in each stage, then the six that are left
    assert taken == ([1, 2, 3, 1, 2, 3, 1, 2, 3, *range(1, 7)] if reset else list(range(1, 16)))


class SaveAt(TrainerCallback):
    """Saves checkpoints after steps 6 and 7."""

    def on_step_end(self, args, state, control, **kwargs):
        control.should_save = state.global_step in (6, 7)


def test_a_run_resumed_at_or_within_a_stage_equals_an_uninterrupted_one(trainer, tmp_path):
    settings = {"method": STAGED, "max_steps": 15, "rows": 24}
    whole = trainer(tmp_path / "whole", **settings)
    whole.add_callback(SaveAt())
    whole.train()
    expected = {n: p for n, p in whole.learner.named_parameters() if p.requires_grad}
    for step in (6, 7):
        again = trainer(tmp_path / f"from {step}", **settings, dataloader_num_workers=2)
        again.train(resume_from_checkpoint=str(tmp_path / "whole" / f"checkpoint-{step}"))
        found = dict(again.learner.named_parameters())
        assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_the_best_model_is_chosen_among_those_of_the_last_stage(trainer):
    made = trainer(
        method=STAGED, valid=True, max_steps=15, eval_strategy="steps", eval_steps=3, save_strategy="steps", save_steps=3,
        save_total_limit=9,
    )  # fmt: skip
    scores = iter([0.9, 0.8, 0.7, 0.3, 0.2])  # after steps 3, 6, 9, all in earlier stages, then 12 and 15
    made.validate = lambda backbone, method: {"accuracy": next(scores)}
    made.train()
    assert (made.state.best_metric, made.state.best_global_step) == (0.3, 12)
