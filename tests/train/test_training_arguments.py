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


def test_by_default_every_epoch_is_validated_and_the_best_is_loaded(tmp_path):
    args = arguments(tmp_path, validates=True)
    assert args.eval_strategy == "epoch" == args.save_strategy and args.load_best_model_at_end
    assert args.metric_for_best_model == "accuracy" and args.greater_is_better


def test_saving_follows_validation_by_default(tmp_path):
    args = arguments(tmp_path, validates=True, eval_strategy="steps", eval_steps=50)
    assert args.save_strategy == "steps" and args.save_steps == 50 and args.load_best_model_at_end


def test_with_another_save_strategy_the_last_model_is_used(tmp_path):
    args = arguments(tmp_path, validates=True, eval_strategy="epoch", save_strategy="steps", save_steps=10)
    assert not args.load_best_model_at_end
    args = arguments(tmp_path, validates=True, eval_strategy="no")
    assert args.eval_strategy == "no" and not args.load_best_model_at_end


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ({"eval_strategy": "epoch"}, "data.valid"),
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
    with pytest.raises(UserError, match="no GPU is available"):
        arguments(tmp_path, device="cuda")
