"""Batch with recurrent latents → hidden states: one forward pass per latent, with gradients through all of them.

A latent's input is computed from the hidden state one position earlier, so latents cannot be computed in parallel. Rows
are shifted right so that all thoughts end at the same column and share every pass and one KV cache:

    [ How many <think> · · · </think> 18 eos ]             [ pad pad How many <think> | · | · | · </think> 18 eos ]
    [ Anna has 3 bags <think> · · · </think> 7 eos ]   →   [ Anna   has   3   bags <think> | · | · | · </think> 7 eos ]
    [ Why <think> · </think> 5 eos ]                       [ pad pad pad pad  pad Why | <think> | · </think> 5 eos ]
                                                                 first pass            one each    last pass

So N latents take N + 1 passes. A row with fewer latents reads its own tokens in the columns before its first latent. On a
GPU with `speed.graph` all passes are replayed as one graph, forward and backward; shifts are then rounded up so that few
graphs are needed.

Axes: B rows, S positions of the batch, C columns (S plus shifts), D width, M latents, N maximum latents per row.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ruplar.errors import UserError
from ruplar.model.backbone import Backbone
from ruplar.types import Batch

Project = Callable[[Tensor], Tensor]
"""Hidden states [B, D] → the next inputs [B, D]."""
BEFORE, AFTER = 32, 16
"""For replayed passes, the columns before the first latent and after the last are multiples of these."""


class Projector(nn.Module):
    """Hidden state → next latent input: linear, GELU, linear, LayerNorm, all of width D; float32 weights."""

    def __init__(self, width: int):
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self.layers = nn.Sequential(  # weights are saved by position; the first was a dropout
                nn.Identity(), nn.Linear(width, width), nn.GELU(), nn.Linear(width, width), nn.LayerNorm(width)
            )

    def forward(self, hidden: Tensor) -> Tensor:
        weight = next(self.parameters())
        return self.layers(hidden.to(weight.dtype)).to(hidden.dtype)


class FixedLatent(nn.Module):
    """Any hidden state → one learned vector; float32."""

    def __init__(self, start: Tensor):
        super().__init__()
        self.vector = nn.Parameter(start.detach().float().clone())

    def forward(self, hidden: Tensor) -> Tensor:
        return self.vector.to(hidden.dtype).expand_as(hidden)


@dataclass
class Rollout:
    """The result of all passes."""

    hidden: Tensor  # [B, C, D] the input of the head at every column
    latents: Tensor  # [B, N, D] the inputs at latent columns; a row's own tokens before its first latent
    # every layer's hidden states in the last pass, the embedding first, each [B, C - tail, D]; () unless requested
    layers: tuple[Tensor, ...]
    shift: Tensor  # [B] columns each row was shifted to the right
    width: int  # S
    tail: int  # first column of the last pass: the last latent's, or 0 without latents

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
        return rows, places % self.width + self.shift[rows]


@dataclass
class _Aligned:
    """A batch shifted so that all thoughts end at one column."""

    ids: Tensor  # [B, C]
    mask: Tensor  # [B, C] 1 at real tokens
    latent: Tensor  # [B, C] bool
    shift: Tensor  # [B]
    first: int  # first column that is a latent in some row
    end: int  # one past the last


def roll_out(backbone: Backbone, batch: Batch, project: Project | None = None, all_layers: bool = False) -> Rollout:
    """Run a batch whose latents are each computed from the previous hidden state, by `project` if it is given.

    The batch is not packed, and the latents of a row are contiguous. `all_layers` also returns every layer of the
    last pass, which covers everything from the last latent on.
    """
    assert not batch.packed, "recurrent latents need one sequence per row"
    if backbone.plain_model.training and backbone.plain_model.is_gradient_checkpointing:
        raise UserError(
            "training.gradient_checkpointing: this method computes its latents recurrently through the KV cache, which "
            "checkpointing disables. Set it to false and lower training.per_device_train_batch_size."
        )
    replayed = backbone.replay is not None and torch.is_grad_enabled()
    rows = _align(batch, backbone.pad_id, *((BEFORE, AFTER) if replayed else (1, 1)))
    passes = Passes(backbone, project, rows.first, rows.end, all_layers)
    embeds, positions = backbone.embedding(rows.ids), (rows.mask.cumsum(1) - 1).clamp_min(0)
    seen = _own_past(rows.mask) if _takes_masks(backbone) else rows.mask
    out = backbone.replay.recur(passes, embeds, seen, positions, rows.latent) if replayed else None
    hidden, latents, *layers = passes(embeds, seen, positions, rows.latent) if out is None else out
    tail = max(rows.end - 1, 0) if rows.end > rows.first else 0
    return Rollout(hidden, latents, tuple(layers), rows.shift, batch.ids.shape[1], tail)


class Passes(nn.Module):
    """All passes of a batch as one module, so that a CUDA graph can be captured of it."""

    def __init__(self, backbone: Backbone, project: Project | None, first: int, end: int, all_layers: bool):
        super().__init__()
        self.backbone, self.inner, self.project = backbone, backbone.plain_model.base_model, project
        self.first, self.end, self.all_layers = first, end, all_layers

    def forward(self, embeds: Tensor, mask: Tensor, positions: Tensor, latent: Tensor) -> tuple[Tensor, ...]:
        """Run all passes through one KV cache → input of the head [B, C, D], latents [B, N, D], the last pass's layers if requested.

        `mask` is [B, C], 1 at real tokens, or an attention mask [B, 1, C, C].
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
        # the last latent and everything after it are known now: one pass
        feed(torch.cat([fed[-1][:, None], embeds[:, self.end :]], dim=1) if fed else embeds, self.all_layers)
        latents = torch.stack(fed, dim=1) if fed else embeds[:, :0]
        return torch.cat(found, dim=1), latents, *layers


def _takes_masks(backbone: Backbone) -> bool:
    """Return whether the layers accept a 4-d boolean mask and their cache keeps all positions.

    Other attention implementations add the mask to the scores, and sliding-window layers drop old positions.
    """
    from transformers import DynamicCache

    config = backbone.plain_model.config
    cut = any(getattr(layer, "is_sliding", False) for layer in DynamicCache(config=config).layers)
    return config._attn_implementation == "sdpa" and not cut


def _own_past(mask: Tensor) -> Tensor:
    """Real tokens [B, C] → causal attention mask [B, 1, C, C].

    Padding positions attend to themselves: some kernels return NaN for a fully masked row, and the NaN would reach other
    positions through the cache.
    """
    size, device = mask.shape[1], mask.device
    past = torch.ones(size, size, dtype=torch.bool, device=device).tril()
    return (past & mask.bool()[:, None, :] | torch.eye(size, dtype=torch.bool, device=device))[:, None]


def _align(batch: Batch, pad_id: int, before: int, after: int) -> _Aligned:
    """Shift every row to the right until all last latents share a column; round column counts to `before` and `after`."""
    size, width = batch.ids.shape
    latent = torch.zeros_like(batch.ids, dtype=torch.bool)
    latent.view(-1)[batch.latent_at] = True
    place = torch.arange(width, device=batch.ids.device)
    ends = torch.where(latent, place + 1, 0).amax(1)  # [B] one past the last latent, 0 without any
    firsts = torch.where(latent, place, width).amin(1)
    lengths = batch.mask.ne(0).sum(1)
    end = ends.max()
    shift = torch.where(ends > 0, end - ends, 0)
    first = torch.where(ends > 0, firsts + shift, end).min()
    more = torch.where(end > first, -first % before, 0)
    end, first, shift = end + more, first + more, torch.where(ends > 0, shift + more, 0)
    numbers = torch.stack([end, first, (lengths + shift).max()]).tolist()  # the one wait for the device
    rest = max(numbers[2] - numbers[0], 0)
    columns = torch.arange(numbers[0] + rest + -rest % after, device=batch.ids.device)
    source = columns - shift[:, None]  # [B, C]
    real = (source >= 0) & (source < lengths[:, None])
    source = source.clamp(0, width - 1)
    return _Aligned(
        ids=torch.where(real, batch.ids.gather(1, source), pad_id),
        mask=real.long(),
        latent=real & latent.gather(1, source),
        shift=shift,
        first=numbers[1],
        end=numbers[0],
    )
