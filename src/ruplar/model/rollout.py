"""Batch whose latents are made one from another → hidden states: the recurrent forward pass, with gradient through it all.

A latent's input is made from the hidden state one position earlier, so latents cannot be computed side by side. Rows
are moved so that all thoughts end at the same column, and share every pass; one cache goes through them all:

    [ How many <think> · · · </think> 18 eos ]             [ pad pad How many <think> | · | · | · </think> 18 eos ]
    [ Anna has 3 bags <think> · · · </think> 7 eos ]   →   [ Anna   has   3   bags <think> | · | · | · </think> 7 eos ]
    [ Why <think> · </think> 5 eos ]                       [ pad pad pad pad  pad Why | <think> | · </think> 5 eos ]
                                                                 first pass            one each    last pass

So N latents take N + 1 passes. A row with fewer latents reads its own tokens in the columns before its first. On a GPU
with `speed.graph` all of them are replayed as one, forward and backward; rows are then moved a little further, so that
few graphs do.

Axes: B rows, S positions of the batch, C columns (S and what rows are moved by), D width, M latents, N most latents of a row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ruplar.errors import UserError
from ruplar.model.backbone import Backbone
from ruplar.types import Batch

Project = Callable[[Tensor], Tensor]
"""Hidden states [B, D] → the inputs made from them [B, D]."""
BEFORE, AFTER = 32, 16
"""Where passes are replayed, the columns before the first latent and after the last are multiples of these."""


@dataclass
class Rollout:
    """What came out of the passes.

    Attributes:
        hidden: [B, C, D] the head's own input at every column.
        latents: [B, N, D] what was fed in the columns of latents; a row's own tokens before its first.
        layers: Every layer's hidden states in the last pass, the embedding's first, each [B, C - tail, D]; () unless
            asked for.
        moved: [B] how many columns each row was moved to the right.
        width: S.
        tail: Column the last pass begins at: the last latent's, or 0 without latents.
    """

    hidden: Tensor
    latents: Tensor
    layers: tuple[Tensor, ...]
    moved: Tensor
    width: int
    tail: int

    def at(self, places: Tensor) -> Tensor:
        """Hidden states [X, D] at flat positions [X] of the batch."""
        rows, columns = self._find(places)
        return self.hidden[rows, columns]

    def layers_at(self, places: Tensor) -> Tensor:
        """Every layer's hidden states [layers, X, D] at flat positions [X] of the batch, all in the last pass."""
        rows, columns = self._find(places)
        return torch.stack([layer[rows, columns - self.tail] for layer in self.layers])

    def _find(self, places: Tensor) -> tuple[Tensor, Tensor]:
        rows = places // self.width
        return rows, places % self.width + self.moved[rows]


@dataclass
class _Aligned:
    """A batch moved so that all thoughts end at one column."""

    ids: Tensor  # [B, C]
    mask: Tensor  # [B, C] 1 where something stands
    latent: Tensor  # [B, C] bool
    moved: Tensor  # [B]
    first: int  # first column that is a latent in some row
    end: int  # one past the last


def roll_out(backbone: Backbone, batch: Batch, project: Project | None = None, all_layers: bool = False) -> Rollout:
    """Run a batch whose latents are each made from the hidden state before them.

    Args:
        backbone: The model.
        batch: Not packed; the latents of a row stand side by side.
        project: What makes an input of a hidden state; None feeds it as it is.
        all_layers: Also keep every layer of the last pass, which holds everything from the last latent on.

    Raises:
        UserError: Gradient checkpointing is on, under which the model keeps no cache.
    """
    assert not batch.packed, "recurrent latents need a row a sequence"
    if backbone.plain_model.training and backbone.plain_model.is_gradient_checkpointing:
        raise UserError(
            "training.gradient_checkpointing: this method makes its latents one from another through the model's cache, "
            "which checkpointing turns off. Set it to false and make training.per_device_train_batch_size smaller."
        )
    replayed = backbone.replay is not None and torch.is_grad_enabled()
    rows = _align(batch, backbone.pad_id, *((BEFORE, AFTER) if replayed else (1, 1)))
    passes = Passes(backbone, project, rows.first, rows.end, all_layers)
    embeds, positions = backbone.embedding(rows.ids), (rows.mask.cumsum(1) - 1).clamp_min(0)
    seen = _own_past(rows.mask) if _takes_masks(backbone) else rows.mask
    out = backbone.replay.recur(passes, embeds, seen, positions, rows.latent) if replayed else None
    hidden, latents, *layers = passes(embeds, seen, positions, rows.latent) if out is None else out
    tail = max(rows.end - 1, 0) if rows.end > rows.first else 0
    return Rollout(hidden, latents, tuple(layers), rows.moved, batch.ids.shape[1], tail)


class Passes(nn.Module):
    """All passes of a batch as one function, whose weights are known: what a graph is captured of.

    Args:
        backbone: The model.
        project: See `roll_out`.
        first: First column that is a latent in some row.
        end: One past the last.
        all_layers: See `roll_out`.
    """

    def __init__(self, backbone: Backbone, project: Project | None, first: int, end: int, all_layers: bool):
        super().__init__()
        self.backbone, self.inner, self.project = backbone, backbone.plain_model.base_model, project
        self.first, self.end, self.all_layers = first, end, all_layers

    def forward(self, embeds: Tensor, mask: Tensor, positions: Tensor, latent: Tensor) -> tuple[Tensor, ...]:
        """Pass after pass through one cache.

        Args:
            embeds: [B, C, D].
            mask: [B, C] 1 where something stands, or [B, 1, C, C] who may look at whom.
            positions: [B, C].
            latent: [B, C] bool.

        Returns:
            The head's own input [B, C, D], what was fed as latents [B, N, D], and every layer of the last pass if asked for.
        """
        from transformers import DynamicCache

        cache = DynamicCache(config=self.backbone.plain_model.config)
        found: list[Tensor] = []
        fed: list[Tensor] = []
        start = 0
        layers: tuple[Tensor, ...] = ()

        def feed(inputs: Tensor, wanted: bool = False) -> None:
            nonlocal start, layers
            stop = start + inputs.shape[1]
            seen = mask[:, :stop] if mask.dim() == 2 else mask[:, :, start:stop, :stop]
            hidden, layers = self.backbone.trunk(inputs, seen, positions[:, start:stop], cache, wanted)
            found.append(hidden)
            start = stop

        if self.end > self.first:
            feed(embeds[:, : self.first])
        for column in range(self.first, self.end):
            last = found[-1][:, -1]
            made = (self.project(last) if self.project is not None else last).to(embeds.dtype)
            fed.append(torch.where(latent[:, column, None], made, embeds[:, column]))
            if column < self.end - 1:
                feed(fed[-1][:, None])
        # the last latent and all that follows it are known now: one pass
        feed(torch.cat([fed[-1][:, None], embeds[:, self.end :]], dim=1) if fed else embeds, self.all_layers)
        latents = torch.stack(fed, dim=1) if fed else embeds[:, :0]
        return torch.cat(found, dim=1), latents, *layers


def _takes_masks(backbone: Backbone) -> bool:
    """Whether the layers take a mask of who may look at whom as it is, and their cache keeps all it was given.

    Other attention adds such a mask to its scores, and a layer with a window drops what lies before it.
    """
    from transformers import DynamicCache

    config = backbone.plain_model.config
    cut = any(getattr(layer, "is_sliding", False) for layer in DynamicCache(config=config).layers)
    return config._attn_implementation == "sdpa" and not cut


def _own_past(mask: Tensor) -> Tensor:
    """Where something stands [B, C] → who may look at whom [B, 1, C, C].

    Whoever stands nowhere looks at himself: of a mask of nothing some kernels make no number, and what is no number
    reaches the others through the cache, however little of it they may see.
    """
    size, device = mask.shape[1], mask.device
    past = torch.ones(size, size, dtype=torch.bool, device=device).tril()
    return (past & mask.bool()[:, None, :] | torch.eye(size, dtype=torch.bool, device=device))[:, None]


def _align(batch: Batch, pad_id: int, before: int, after: int) -> _Aligned:
    """Move every row to the right until its last latent stands where the others' do, and columns are so many."""
    size, width = batch.ids.shape
    latent = torch.zeros_like(batch.ids, dtype=torch.bool)
    latent.view(-1)[batch.latent_at] = True
    place = torch.arange(width, device=batch.ids.device)
    ends = torch.where(latent, place + 1, 0).amax(1)  # [B] one past the last latent, 0 without any
    firsts = torch.where(latent, place, width).amin(1)
    lengths = batch.mask.ne(0).sum(1)
    end = ends.max()
    moved = torch.where(ends > 0, end - ends, 0)
    first = torch.where(ends > 0, firsts + moved, end).min()
    more = torch.where(end > first, -first % before, 0)
    end, first, moved = end + more, first + more, torch.where(ends > 0, moved + more, 0)
    numbers = torch.stack([end, first, (lengths + moved).max()]).tolist()  # the one wait for the device
    rest = max(numbers[2] - numbers[0], 0)
    columns = torch.arange(numbers[0] + rest + -rest % after, device=batch.ids.device)
    source = columns - moved[:, None]  # [B, C]
    real = (source >= 0) & (source < lengths[:, None])
    source = source.clamp(0, width - 1)
    return _Aligned(
        ids=torch.where(real, batch.ids.gather(1, source), pad_id),
        mask=real.long(),
        latent=real & latent.gather(1, source),
        moved=moved,
        first=numbers[1],
        end=numbers[0],
    )
