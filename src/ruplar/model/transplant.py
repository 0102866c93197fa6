"""A model with its tokenizer, and another that is to be like it → the other with the first one's layers, under a vocabulary of its own.

A small model from random weights is slow to find out that facts can be looked up; one that has read word problems looks numbers up
already (docs/log.md). Words that both tokenizers know keep their rows; the others begin at random, with the spread of the lender's rows.
"""

from __future__ import annotations

from typing import Any

import torch

from ruplar.errors import UserError


@torch.no_grad()
def borrow(model: Any, tokenizer: Any, lender: Any, lenders: Any) -> int:
    """Give `model` the layers of `lender`, and the rows of the words that both know.

    Args:
        model: A causal LM of the same shape but for its vocabulary; changed in place.
        tokenizer: Its tokenizer.
        lender: The model whose layers it gets.
        lenders: The lender's tokenizer.

    Returns:
        How many rows were known.

    Raises:
        UserError: Their layers differ in name or shape.
    """
    ends = {id(end.weight) for m in (model, lender) for end in (m.get_input_embeddings(), m.get_output_embeddings())}
    own = {name: weight for name, weight in model.named_parameters() if id(weight) not in ends}
    theirs = {name: weight for name, weight in lender.named_parameters() if id(weight) not in ends}
    if {name: weight.shape for name, weight in own.items()} != {name: weight.shape for name, weight in theirs.items()}:
        raise UserError("backbone.weights: borrowed layers must have the shape of the model's own.")
    for name, weight in own.items():
        weight.copy_(theirs[name])
    rows = zip(_rows(model), _rows(lender), strict=True)
    known = {word: i for word, i in lenders.get_vocab().items() if word in tokenizer.get_vocab()}
    at = [tokenizer.get_vocab()[word] for word in known]
    for new, old in rows:
        new.normal_(std=float(old.std()))
        new[at] = old[list(known.values())].to(new.dtype)
    return len(known)


def _rows(model: Any) -> list[torch.Tensor]:
    """Its embedding, and its head where that is another weight."""
    embedding, head = model.get_input_embeddings().weight, model.get_output_embeddings().weight
    return [embedding] if embedding is head else [embedding, head]
