"""Model → the same model with embedding rows for new tokens, or with the layers of another model under its own vocabulary.

New rows start from existing rows, the same on every load. They are set in the input embedding and in the head, which are
one matrix where they are tied. Axes: V rows, D width.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ruplar.errors import UserError

_DECAY = 0.5
"""Weight of a digit relative to the digit to its left."""


@torch.no_grad()
def add_mean_rows(model: Any, size: int, added: int) -> None:
    """Add rows for the last `added` of `size` tokens, set to the mean of the other rows."""
    _resize(model, size)
    for rows in _matrices(model):
        rows[size - added : size] = rows[: size - added].float().mean(0).to(rows.dtype)


@torch.no_grad()
def add_number_rows(model: Any, groups: dict[str, int], digits: Sequence[int]) -> None:
    """Add rows for groups of digits, computed from the rows of their digits (`number_row`)."""
    _resize(model, max(groups.values()) + 1)
    for rows in _matrices(model):
        known = rows[list(digits)].float().cpu()
        made = torch.stack([number_row(known, group) for group in groups])
        rows[list(groups.values())] = made.to(rows.device, rows.dtype)


def number_row(digits: Tensor, group: str) -> Tensor:
    """Rows of the ten digits [10, D] and a group such as "216" → its row [D].

    The row is the mean of all digits plus a weighted sum of each digit's difference from that mean, the leading digit
    weighted most. So 216 and 612 have different rows, 216 is nearer to 217 than to 316, and 11 and 111 differ from 1. The
    weights have unit norm and the row has the mean norm of the digits' rows.
    """
    shared = digits.mean(0)
    places = torch.tensor([_DECAY**place for place in range(len(group))])
    places = places / places.norm()
    offsets = digits[[int(digit) for digit in group]] - shared
    row = shared + (places[:, None] * offsets).sum(0)
    return row * digits.norm(dim=-1).mean() / row.norm()


@torch.no_grad()
def copy_layers(model: Any, tokenizer: Any, donor: Any, donor_tokenizer: Any) -> int:
    """Copy the layers of `donor`, and the embedding rows of shared tokens; other rows are random → the number of shared rows.

    A small model with random weights learns slowly to look facts up; one trained on word problems already looks
    numbers up (docs/log.md).
    """
    ends = {id(end.weight) for m in (model, donor) for end in (m.get_input_embeddings(), m.get_output_embeddings())}
    own = {name: weight for name, weight in model.named_parameters() if id(weight) not in ends}
    theirs = {name: weight for name, weight in donor.named_parameters() if id(weight) not in ends}
    if {name: weight.shape for name, weight in own.items()} != {name: weight.shape for name, weight in theirs.items()}:
        raise UserError("backbone.weights: borrowed layers must have the shape of the model's own layers.")
    for name, weight in own.items():
        weight.copy_(theirs[name])
    known = {word: i for word, i in donor_tokenizer.get_vocab().items() if word in tokenizer.get_vocab()}
    at = [tokenizer.get_vocab()[word] for word in known]
    for new, old in zip(_matrices(model), _matrices(donor), strict=True):
        new.normal_(std=float(old.std()))
        new[at] = old[list(known.values())].to(new.dtype)
    return len(known)


def _resize(model: Any, size: int) -> None:
    """Extend the embedding and head to `size` rows of zeros, skipping the slow random initialisation of whole matrices."""
    from transformers.initialization import no_init_weights

    known = [len(module.weight) for module in _ends(model)]
    if size <= known[0]:
        return
    with no_init_weights():  # skips torch's initialisation; the next line skips the model's own
        model._init_weights = lambda module: None
        try:
            model.resize_token_embeddings(size, mean_resizing=False)
        finally:
            del model._init_weights  # restores the class's method
    for module, before in zip(_ends(model), known, strict=True):
        for rows in (module.weight, getattr(module, "bias", None)):
            if rows is not None:
                rows[before:] = 0  # uninitialised memory until now


def _ends(model: Any) -> list[Any]:
    return [module for module in (model.get_input_embeddings(), model.get_output_embeddings()) if module is not None]


def _matrices(model: Any) -> list[Tensor]:
    """Return the distinct weight matrices of embedding and head."""
    found = {module.weight.data_ptr(): module.weight for module in _ends(model)}
    return list(found.values())
