"""The recipe's training section → Hugging Face `TrainingArguments`, with our defaults; and the attention kernels to train with."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from transformers import TrainingArguments
from transformers.integrations import get_reporting_integration_callbacks

from ruplar.errors import UserError

_FIXED = {
    "disable_tqdm": True,
    "remove_unused_columns": False,
    "label_names": [],
    "logging_nan_inf_filter": False,  # it reads the loss from the device at every step and hides NaN from the guard
}
_DEFAULTS = {"report_to": "none", "logging_steps": 10, "save_total_limit": 2, "ddp_find_unused_parameters": False}
_SAMPLING = ("random", "sequential", "group_by_length")
_TILE = 128
"""cuDNN's attention is correct for rows whose length is a multiple of this."""


def training_arguments(
    section: Mapping[str, Any], run: Path, seed: int, device: str, validates: bool
) -> TrainingArguments:
    """Build the arguments of one run.

    With validation questions and no `eval_strategy`, every epoch is validated and saved, and the best one is loaded at the
    end.
    """
    given = dict(section)
    _check(given, device)
    chosen = {**_DEFAULTS, **_validation(given, validates), **_device(device), **given, **_FIXED}
    try:
        args = TrainingArguments(output_dir=str(run), seed=seed, **{"data_seed": seed, **chosen})
        for tracker in get_reporting_integration_callbacks(args.report_to):
            tracker()  # raises a RuntimeError if its package is not installed
    except (ValueError, TypeError, ImportError, RuntimeError) as error:
        raise UserError(f"training: {error}") from error
    if args.device.type != torch.device(device).type:
        raise UserError(f"device '{device}' was requested, but transformers would train on '{args.device}'.")
    if device == "cpu":
        # of several processes: cpu:0, onto which torch loads nothing
        args.__dict__["_setup_devices"] = torch.device("cpu")
        # recipes for a GPU ask for more loader workers than a CPU has cores for
        args.dataloader_num_workers = min(args.dataloader_num_workers, os.cpu_count() or 1)
    args._n_gpu = min(args.n_gpu, 1)  # DataParallel would split our flat batches incorrectly
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
        # overlap copies to the GPU with computation; two workers tokenize
        return {"accelerator_config": {"non_blocking": True}, "dataloader_num_workers": 2}
    return {"use_cpu": True, "dataloader_pin_memory": False} if device == "cpu" else {"dataloader_pin_memory": False}


def _check(given: Mapping[str, Any], device: str) -> None:
    problems = []
    if device.startswith("cuda:") and device != "cuda:0":
        problems.append(f"device '{device}': choose a GPU with CUDA_VISIBLE_DEVICES={device[5:]} and train on 'cuda'.")
    if given.get("train_sampling_strategy", "random") not in _SAMPLING:
        problems.append(f"training.train_sampling_strategy: must be one of {', '.join(_SAMPLING)}.")
    split = set(given.get("accelerator_config") or ()) & {"split_batches", "dispatch_batches"}
    if split:
        problems.append(
            f"training.accelerator_config.{min(split)}: batches are distributed to processes one by one. Remove it."
        )
    if problems:
        raise UserError(*problems)


@contextmanager
def sound_attention(width: int) -> Iterator[None]:
    """Train without cuDNN's attention, unless all rows are packed to a width at which its backward pass is correct.

    With an attention mask, cuDNN's backward pass returns NaN on Hopper GPUs where all scores of a query are very
    low and the row length modulo 128 is 64, or the pass has a single query, as with recurrent latents (PyTorch
    issue 196678, cuDNN frontend issue 1072). PyTorch selects cuDNN by default from 2.11 on; its other kernels are
    correct.
    """
    before = torch.backends.cuda.cudnn_sdp_enabled()
    torch.backends.cuda.enable_cudnn_sdp(before and width > 0 and width % _TILE == 0)
    try:
        yield
    finally:
        torch.backends.cuda.enable_cudnn_sdp(before)
