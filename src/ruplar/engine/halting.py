"""A question's own halt threshold → where its thought ends, whatever the others beside it do.

P(halt) is what the model gives to `</think>`; a thought ends where it is above the threshold. A low threshold ends thoughts
early, a high one lets them go on to the cap.  Axes: B rows, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ruplar.engine.sampling import Decoding
from ruplar.engine.thinker import SoftThinker, Thinker
from ruplar.errors import UserError


def check_threshold(thinker: Thinker, decoding: Decoding) -> None:
    """Refuse a threshold where thoughts do not end by one, rather than leave it without effect."""
    if decoding.halt_threshold is None:
        return
    if not isinstance(thinker, SoftThinker) or thinker.halt != "threshold":
        raise UserError(
            f"halt_threshold: the thoughts of {type(thinker).__name__} do not end by a threshold here. Leave it out."
        )


def own_halt(halt: Tensor, logits: Tensor, end_think_id: int, thresholds: Sequence[float | None]) -> Tensor:
    """[B] bool: the thinker's own decision, or P(halt) > threshold in rows that have one.

    Args:
        halt: [B] bool, the thinker's own.
        logits: [B, V] float32, before any noise.
        end_think_id: The halt token.
        thresholds: One a row.
    """
    rows = [row for row, value in enumerate(thresholds) if value is not None]
    if not rows:
        return halt
    at = torch.tensor(rows, device=halt.device)
    above = torch.tensor([thresholds[row] for row in rows], device=halt.device)
    halt = halt.clone()
    halt[at] = logits[at].softmax(-1)[:, end_think_id] > above
    return halt
