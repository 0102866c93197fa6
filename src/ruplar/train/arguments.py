"""The recipe's training section → Hugging Face `TrainingArguments`: as given, with defaults that fit us under it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from transformers import TrainingArguments

from ruplar.errors import UserError

_OURS = {
    "report_to": "none",
    "disable_tqdm": True,
    "remove_unused_columns": False,
    "label_names": [],
    "logging_nan_inf_filter": False,  # it reads the loss from the device at every step, and hides what the guard looks for
}
_DEFAULTS = {"logging_steps": 10, "save_total_limit": 2, "ddp_find_unused_parameters": False}
_SAMPLING = ("random", "sequential", "group_by_length")


def training_arguments(
    section: Mapping[str, Any], run: Path, seed: int, device: str, validates: bool
) -> TrainingArguments:
    """The arguments of one run.

    With validation questions and no word on when, every epoch is validated and saved and the best one is kept.

    Args:
        section: What the recipe says, by transformers' own names.
        run: The run's folder.
        seed: Seeds the order of rows and dropout.
        device: `cpu`, `cuda` or `mps`.
        validates: Whether there are validation questions.

    Raises:
        UserError: Transformers refuses a value, or a value cannot work here.
    """
    given = dict(section)
    _check(given, device, validates)
    chosen = {**_DEFAULTS, **_validation(given, validates), **_device(device), **given, **_OURS}
    chosen["report_to"] = given.get("report_to", _OURS["report_to"])
    try:
        args = TrainingArguments(output_dir=str(run), seed=seed, **{"data_seed": seed, **chosen})
    except (ValueError, TypeError, ImportError) as error:
        raise UserError(f"training: {error}") from error
    if args.device.type != torch.device(device).type:
        raise UserError(f"device '{device}' was asked for, but transformers would train on '{args.device}'.")
    args._n_gpu = min(args.n_gpu, 1)  # several GPUs in one process would cut our flat batches to pieces
    return args


def _validation(given: Mapping[str, Any], validates: bool) -> dict[str, Any]:
    if not validates:
        return {}
    when = given.get("eval_strategy", "epoch")
    chosen: dict[str, Any] = {"eval_strategy": when, "metric_for_best_model": "accuracy", "greater_is_better": True}
    if when == "no":
        return chosen
    chosen["save_strategy"] = given.get("save_strategy", when)
    if "eval_steps" in given and "save_strategy" not in given:
        chosen["save_steps"] = given.get("save_steps", given["eval_steps"])
    chosen["load_best_model_at_end"] = chosen["save_strategy"] in (when, "best")
    return chosen


def _device(device: str) -> dict[str, Any]:
    if device.startswith("cuda"):
        # copies to the GPU overlap with its work; two workers encode ahead
        return {"accelerator_config": {"non_blocking": True}, "dataloader_num_workers": 2}
    return {"use_cpu": True, "dataloader_pin_memory": False} if device == "cpu" else {"dataloader_pin_memory": False}


def _check(given: Mapping[str, Any], device: str, validates: bool) -> None:
    problems = []
    if not validates and given.get("eval_strategy", "no") != "no":
        problems.append("training.eval_strategy: there are no validation questions; set data.valid, or drop it.")
    if device.startswith("cuda:") and device != "cuda:0":
        problems.append(f"device '{device}': choose a GPU with CUDA_VISIBLE_DEVICES={device[5:]} and train on 'cuda'.")
    if device.startswith("cuda") and not torch.cuda.is_available():
        problems.append(f"device '{device}': no GPU is usable here. Train on 'cpu'.")
    if given.get("train_sampling_strategy", "random") not in _SAMPLING:
        problems.append(f"training.train_sampling_strategy: must be one of {', '.join(_SAMPLING)}.")
    dealt = set(given.get("accelerator_config") or ()) & {"split_batches", "dispatch_batches"}
    if dealt:
        problems.append(
            f"training.accelerator_config.{min(dealt)}: batches are dealt out to processes one by one here. Drop it."
        )
    if problems:
        raise UserError(*problems)
