"""Checks before a run: settings that cannot work together, and whether its folder can be started or resumed."""

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import yaml

from ruplar.config import RunConfig, from_dict, to_yaml
from ruplar.config.text import differing
from ruplar.errors import UserError
from ruplar.io import write_json, write_text
from ruplar.methods.base import Method
from ruplar.model.backbone import Backbone
from ruplar.train import DATA, METRICS, MODEL, RECIPE, START, checkpoint

log = logging.getLogger(__name__)

_FIXED = ("seed", "backbone", "prompt", "data", "spans", "prior", "method")
"""Sections that a resumed run must share with its start; the others may change, e.g. for more steps."""
_CELL = "cell.json"
"""Written by a study before it trains a cell (`experiments/cell.py`)."""


def find_checkpoint(output: Path, resume: bool) -> Path | None:
    """Return the checkpoint to resume from; None to start from the beginning."""
    if resume:
        start = checkpoint.latest(output)
        if start is None and (output / MODEL).exists():
            raise UserError(
                f"{output}: this run is finished and has no checkpoint to resume. Choose another --output; with "
                f"backbone.init={output} it starts from this model."
            )
        if start is None:
            log.warning("%s: no complete checkpoint to resume from; starting from the beginning.", output)
        return start
    begun = (output / METRICS).is_file() and (output / METRICS).stat().st_size
    finished = (output / MODEL).exists()
    if begun or finished or any(output.glob("checkpoint-*")):
        resumed = "Add --resume (Python: resume=True)"
        again = f"{resumed} and more steps or epochs, or choose" if checkpoint.latest(output) else "Choose"
        way = f"It is finished. {again}" if finished else f"{resumed}; or choose"
        raise UserError(f"{output}: contains a run already. {way} another folder, or remove this one.")
    return None


def check_settings(config: RunConfig, method: Method) -> None:
    if config.backbone.weights != "pretrained" and config.backbone.lora is not None:
        raise UserError(
            "backbone.lora: an adapter is saved without its base weights, so random or borrowed weights could not be "
            "reloaded. Set backbone.lora: null to train all weights, or backbone.weights: pretrained."
        )
    if config.speed.pack and not method.packs:
        raise UserError(f"speed.pack: method '{config.method.name}' does not support packing. Set speed.pack: 0.")
    if config.speed.pack and config.backbone.attention != "sdpa":
        raise UserError(
            f"speed.pack: packed sequences need an attention mask that attention '{config.backbone.attention}' does not "
            "support. Set speed.pack: 0, or backbone.attention: sdpa."
        )


def check_graph(args: Any) -> None:
    """Refuse what cannot be part of a CUDA graph."""
    wrong = []
    if args.gradient_checkpointing:
        wrong.append("training.gradient_checkpointing: recomputed layers cannot be captured")
    if args.world_size > 1:
        wrong.append("several processes: they exchange gradients during the backward pass, which cannot be captured")
    if wrong:
        raise UserError(*(f"{one}. Set speed.graph: false, or turn it off." for one in wrong))


def write_begun(run: Path, config: RunConfig, start: Mapping[str, str], data: Mapping[str, str], resume: bool) -> None:
    """Write config and hashes of start weights and data; refuse to resume with others, and warn of what may change."""
    file, text = run / RECIPE, to_yaml(config)
    known = file.read_text(encoding="utf-8") if resume and file.is_file() else text
    was = from_dict(yaml.safe_load(known), str(file)).as_dict()
    # folders may have been moved; the weights of two starts are compared below
    moved = ["backbone.init"] if was["backbone"]["init"] and config.backbone.init else []
    here = Path(config.backbone.name)
    moved += ["backbone.name"] if here.is_dir() and here.name == Path(was["backbone"]["name"]).name else []
    names = (name for name in differing(was, config.as_dict()) if name not in moved)
    if changed := ", ".join(name for name in names if name.partition(".")[0] in _FIXED):
        raise UserError(
            f"{file}: {changed} differ from the config this run was started with. Undo the change, or choose another "
            "--output."
        )
    for begun, marks in ((run / START, start), (run / DATA, data)):
        before = json.loads(begun.read_text(encoding="utf-8")) if resume and begun.is_file() else marks
        if [*before.values()] != [*marks.values()]:
            changed = ", ".join(name for name, mark in marks.items() if before.get(name) != mark)
            raise UserError(
                f"{begun}: the content of {changed} has changed since this run was started. Restore it, or start a new run in "
                "another --output."
            )
        if marks:
            write_json(begun, dict(marks))
    if known != text:
        log.warning("%s: the recipe has changed since this run was started; resuming with the new one.", file)
    write_text(file, text)


def check_precision(backbone: Backbone, run: Path) -> None:
    """Warn where all weights are trained in bfloat16, and refuse it in the folder of a study's cell."""
    if hasattr(backbone.model, "peft_config") or backbone.embedding_weight.dtype != torch.bfloat16:
        return
    said = "backbone.dtype: all weights are trained in bfloat16 without a float32 copy, which loses small updates"
    way = "Set backbone.dtype: float32; training.bf16: true still computes in bfloat16."
    if (run / _CELL).is_file():
        raise UserError(f"{said} and would bias the comparison of a study. {way}")
    log.warning("%s. %s", said, way)
