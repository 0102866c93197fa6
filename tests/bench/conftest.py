"""A shape small enough that every measurement takes a moment."""

import pytest
import torch

from ruplar.bench import shapes


@pytest.fixture
def tiny_shape(monkeypatch):
    """The name of a two-layer shape, its sizes a toy's."""
    torch.set_num_threads(1)
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "vocab_size": 64}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8}
    monkeypatch.setitem(shapes.SHAPES, "tiny", {**shapes.SHAPES["embedded"], **sizes, **heads})
    return "tiny"
