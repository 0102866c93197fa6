"""The training section of a recipe as transformers gets it."""

import pytest

from ruplar.errors import UserError
from ruplar.train.arguments import training_arguments


def arguments(tmp_path, validates=False, device="cpu", **section):
    return training_arguments(section, tmp_path, seed=7, device=device, validates=validates)


def test_arguments_are_passed_on_with_the_seed_of_the_run(tmp_path):
    args = arguments(tmp_path, learning_rate=0.5, logging_steps=3)
    assert (args.learning_rate, args.logging_steps, args.seed, args.data_seed) == (0.5, 3, 7, 7)
    assert args.report_to == [] and args.disable_tqdm and not args.logging_nan_inf_filter


@pytest.mark.parametrize(
    ("section", "evaluated", "saved", "best"),
    [
        ({}, "epoch", ("epoch", 500), True),
        ({"eval_strategy": "steps", "eval_steps": 50}, "steps", ("steps", 50), True),
        ({"eval_strategy": "epoch", "save_strategy": "steps", "save_steps": 10}, "epoch", ("steps", 10), False),
        ({"eval_strategy": "no"}, "no", ("steps", 500), False),
    ],
    ids=["default", "saving follows validation", "another save strategy", "no validation"],
)
def test_the_best_model_is_loaded_where_every_validation_is_saved(tmp_path, section, evaluated, saved, best):
    args = arguments(tmp_path, validates=True, **section)
    assert (args.eval_strategy, args.save_strategy, args.save_steps) == (evaluated, *saved)
    assert args.load_best_model_at_end == best
    assert args.metric_for_best_model == "accuracy" and args.greater_is_better


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ({"train_sampling_strategy": "batch_rebalance"}, "train_sampling_strategy: must be one of random"),
        ({"accelerator_config": {"split_batches": True}}, "accelerator_config.split_batches: batches are distributed"),
        ({"lr_scheduler_type": "upwards"}, "upwards"),
        ({"learning_rte": 1}, "learning_rte"),
    ],
)
def test_what_cannot_work_is_refused_by_name(tmp_path, section, message):
    with pytest.raises(UserError, match=message):
        arguments(tmp_path, **section)


def test_a_missing_device_is_refused(tmp_path):
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(UserError, match="would train on 'cpu'"):
        arguments(tmp_path, device="cuda")
