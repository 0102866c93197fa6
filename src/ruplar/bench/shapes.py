"""Name of a model shape → a backbone of its real size with random weights, and random prompts of given lengths.

Speed does not depend on the weights' values, so nothing is downloaded and no tokenizer is needed: prompts are ids.
`<think>` and `</think>` are the last two ids of the vocabulary, and the end token is an id that no model can generate, so
every answer has exactly the given length.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ruplar.errors import UserError, unknown
from ruplar.model.backbone import Backbone
from ruplar.types import Markers, Prompt

SHAPES: dict[str, dict[str, Any]] = json.loads((Path(__file__).parent / "shapes.json").read_text(encoding="utf-8"))
"""The published sizes; all shapes tie the LM head to the embedding."""

NO_ID = -1
"""An end token that is never generated."""


def sizes_of(name: str) -> dict[str, Any]:
    """Return the sizes of a shape."""
    if name not in SHAPES:
        raise UserError(unknown("shape", name, SHAPES))
    return SHAPES[name]


def build(name: str, device: str, dtype: torch.dtype, seed: int = 0) -> Backbone:
    """Build a model of this shape with random weights on the device."""
    from transformers import AutoConfig, AutoModelForCausalLM

    sizes = dict(sizes_of(name))
    family, rope = sizes.pop("model_type"), sizes.pop("rope")
    ends = {"bos_token_id": None, "eos_token_id": None, "pad_token_id": None}
    config = AutoConfig.for_model(family, tie_word_embeddings=True, rope_parameters=dict(rope), **ends, **sizes)
    torch.manual_seed(seed)
    with torch.device(device):
        model = AutoModelForCausalLM.from_config(config, dtype=dtype, attn_implementation="sdpa").eval()
    model.generation_config.pad_token_id = 0
    vocabulary = sizes["vocab_size"]
    nothing: Any = None  # no tokenizer and no prompt builder: nothing here reads or writes text
    return Backbone(model, nothing, nothing, Markers(vocabulary - 2, vocabulary - 1, NO_ID), 0)


def random_prompts(backbone: Backbone, lengths: list[int], seed: int = 0) -> list[Prompt]:
    """Return prompts of those lengths made of random ids, without markers."""
    draw = np.random.default_rng(seed)
    top = backbone.embedding_weight.shape[0] - 2
    return [Prompt(tuple(draw.integers(0, top, size=n).tolist()), n - 1) for n in lengths]


def gsm8k_lengths(count: int | None = None) -> list[int]:
    """Return the prompt lengths of GSM8K's test set, all 1,319 or `count` spread evenly over them, shuffled."""
    table = json.loads((Path(__file__).parent / "gsm8k_lengths.json").read_text(encoding="utf-8"))
    every = [int(length) for length, times in table["counts"].items() for _ in range(times)]
    if count is not None:
        every = [every[int((i + 0.5) * len(every) / count)] for i in range(count)]
    return np.random.default_rng(0).permutation(every).tolist()
