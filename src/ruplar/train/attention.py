"""Width of packed rows → training without cuDNN's attention, where its backward pass may give no number.

With a mask of who may look at whom, cuDNN's backward pass gives NaN on Hopper GPUs where a query's scores are all very low
and the row's length leaves 64 when divided by 128, or the pass has a single query, as latents made one from another do
(PyTorch issue 196678, cuDNN frontend issue 1072). PyTorch chooses cuDNN by itself from 2.11 on; its other kernels are sound.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

_TILE = 128
"""Rows of a multiple of this are sound."""


@contextmanager
def sound_attention(width: int) -> Iterator[None]:
    """Train without cuDNN's attention, unless all rows are packed to a width at which it is sound.

    Args:
        width: That of packed rows; 0: rows are as long as they are.
    """
    before = torch.backends.cuda.cudnn_sdp_enabled()
    torch.backends.cuda.enable_cudnn_sdp(before and width > 0 and width % _TILE == 0)
    try:
        yield
    finally:
        torch.backends.cuda.enable_cudnn_sdp(before)
