"""What stops a run, and what does not."""

import pytest
import torch
from cases import cases

from ruplar.errors import TrainingStopped
from ruplar.train.metrics import Guard, MetricAccumulator


def nothing():
    return None


def test_a_nan_loss_stops_training_and_is_not_saved(trainer, tmp_path):
    made = trainer(max_steps=8, logging_steps=4, save_strategy="steps", save_steps=3)
    real, calls = made.learner.method.loss, []

    def poisoned(backbone, batch):
        calls.append(None)
        found = real(backbone, batch)
        if len(calls) >= 5:  # between the row of step 4 and the checkpoint of step 6
            found.parts["prior"] = found.parts["prior"] * float("nan")
        return found

    made.learner.method.loss = poisoned
    with pytest.raises(TrainingStopped) as stopped:
        made.train()
    message = str(stopped.value)
    assert "the prior loss became NaN or infinite at step 5" in message, "the first one"
    assert "answer" not in message
    assert "learning_rate (now " in message and "float32" in message
    assert str(tmp_path / "run" / "checkpoint-3") in message
    assert not (tmp_path / "run" / "checkpoint-6").exists()  # it was due at the poisoned step
    assert len(calls) == 6


def test_an_infinite_gradient_stops_training_though_the_loss_is_finite(trainer):
    made = trainer(max_steps=4, logging_steps=2)
    weight = next(p for p in made.learner.parameters() if p.requires_grad)
    weight.register_hook(lambda gradient: torch.full_like(gradient, torch.inf))
    with pytest.raises(TrainingStopped, match="gradient norm became NaN or infinite at step 1"):
        made.train()


def test_a_part_may_not_take_a_name_that_a_row_of_the_curve_has():
    with pytest.raises(AssertionError, match="'step'"):
        MetricAccumulator().add({"step": torch.tensor(1.0)}, {}, 1)


COLLAPSED = {"entropy": 0.001, "prior": 9.0, "same_top": 1.0, "went_on": 1.0}
HALTED = {"entropy": 2.0, "prior": 3.0, "same_top": 1.0, "went_on": 0.0}


def check(rows, progress=0.5, window=3, **settings):
    guard = Guard(window=window, **settings)
    for row in rows:
        guard.check_row({"went_on": 1.0, **row}, progress, nothing)
    return guard


def test_collapsed_latents_stop_a_run_once_the_window_is_full():
    with pytest.raises(TrainingStopped, match="latents have collapsed.*No checkpoint"):
        check([COLLAPSED, COLLAPSED]).check_row(COLLAPSED, 0.5, nothing)


@pytest.mark.parametrize("rows", cases(__file__, "healthy"))
def test_healthy_rows_never_stop_a_run(rows):
    check(rows * 20, 0.9)


def test_collapse_does_not_stop_a_run_with_the_check_off():
    check([COLLAPSED, {**COLLAPSED, "went_on": 0.0}], window=1, collapse=False)


def test_thoughts_that_never_begin_stop_a_run_but_not_while_it_warms_up():
    guard = check([HALTED] * 5, progress=0.05)
    guard.check_row(HALTED, 0.5, nothing)
    guard.check_row(HALTED, 0.5, nothing)
    with pytest.raises(TrainingStopped, match="ends every thought before it begins"):
        guard.check_row(HALTED, 0.5, nothing)


def test_a_model_made_to_collapse_is_caught_by_the_trainer(trainer):
    made = trainer(max_steps=12, logging_steps=1, learning_rate=0.0)
    head = made.learner.backbone.head
    favourite = torch.nn.functional.one_hot(torch.tensor(7), head.out_features) * 1000.0
    head.register_forward_hook(lambda module, inputs, out: out + favourite)
    with pytest.raises(TrainingStopped, match="latents have collapsed"):
        made.train()
    assert made.state.global_step == 5
