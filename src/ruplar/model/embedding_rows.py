"""Model → the same with embedding rows for more tokens; each starts from rows that are there, the same on every load.

A row is set in the input embedding and in the head, which are one matrix where they are tied. Axes: V rows, D width.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

_FADE = 0.5
"""Weight of a digit against the one to its left."""


@torch.no_grad()
def add_mean_rows(model: Any, size: int, added: int) -> None:
    """Rows for the last `added` of `size` tokens, at the mean of the others: for tokens with nothing to start from."""
    _make_room(model, size)
    for rows in _matrices(model):
        rows[size - added : size] = rows[: size - added].float().mean(0).to(rows.dtype)


@torch.no_grad()
def add_number_rows(model: Any, groups: dict[str, int], digits: Sequence[int]) -> None:
    """Rows for groups of digits, made of the rows of their digits; see `number_row`.

    Args:
        model: The causal LM.
        groups: Group → id, of those that have no row yet.
        digits: Ids of 0 to 9.
    """
    _make_room(model, max(groups.values()) + 1)
    for rows in _matrices(model):
        known = rows[list(digits)].float().cpu()
        made = torch.stack([number_row(known, group) for group in groups])
        rows[list(groups.values())] = made.to(rows.device, rows.dtype)


def number_row(digits: Tensor, group: str) -> Tensor:
    """Rows of the ten digits [10, D] and a group such as "216" → its row [D].

    The part that all digits share, plus what sets each digit apart, the leading one most: 216 and 612 are then different
    rows, 216 is nearer to 217 than to 316, and 11 and 111 are not 1. The weights of places have unit norm, so a group
    stands out as much as a digit does; the length is the digits' mean length, as that of rows the model knows.
    """
    shared = digits.mean(0)
    places = torch.tensor([_FADE**place for place in range(len(group))])
    places = places / places.norm()
    apart = digits[[int(digit) for digit in group]] - shared
    row = shared + (places[:, None] * apart).sum(0)
    return row * digits.norm(dim=-1).mean() / row.norm()


def _make_room(model: Any, size: int) -> None:
    """Rows up to `size`, of zeros where there were none; as it is done otherwise, whole matrices are drawn first, for seconds."""
    from transformers.initialization import no_init_weights

    known = [len(module.weight) for module in _ends(model)]
    if size <= known[0]:
        return
    with no_init_weights():  # torch's own drawing; the model's is left out beside it
        model._init_weights = lambda module: None
        try:
            model.resize_token_embeddings(size, mean_resizing=False)
        finally:
            del model._init_weights  # the class's is there again
    for module, before in zip(_ends(model), known, strict=True):
        for rows in (module.weight, getattr(module, "bias", None)):
            if rows is not None:
                rows[before:] = 0  # until now whatever lay in that memory


def _ends(model: Any) -> list[Any]:
    """The input embedding, and the head where there is one."""
    return [module for module in (model.get_input_embeddings(), model.get_output_embeddings()) if module is not None]


def _matrices(model: Any) -> list[Tensor]:
    found = {module.weight.data_ptr(): module.weight for module in _ends(model)}
    return list(found.values())
