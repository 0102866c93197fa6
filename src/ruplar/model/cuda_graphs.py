"""A backbone's training pass → the same pass replayed as captured CUDA graphs: one launch instead of hundreds.

With a small model the CPU takes longer to launch a step's kernels than the GPU takes to run them. The pass through the
layers, forward and backward, is captured; losses run normally. Empty rows are added up to a multiple of `ROWS`, so that few
graphs are needed:

    [ 61 packed rows ]  →  [ 61 rows | 3 empty ]  –graph of 64→  hidden  →  [ 61 rows ]

Recurrent latents take one small pass each; all passes of a batch are captured as one graph (`rollout.Passes`).

A replay overwrites the outputs of the previous replay, and all graphs share one memory pool. So only the first pass with
gradients of a step is replayed: another replay would overwrite what its backward pass still needs.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ruplar.model.fold_lora import clear_folded
from ruplar.model.lora import TRAINED

if TYPE_CHECKING:
    from ruplar.model.backbone import Backbone
    from ruplar.model.rollout import Passes

ROWS = 8
"""The number of rows is rounded up to a multiple of this."""
MOST = 64
"""Maximum number of graphs to capture; further shapes run normally."""
LARGEST = 600_000_000
"""Maximum activations (positions × width × layers) of a captured batch of recurrent latents; more need too much memory."""

Pass = Callable[..., tuple[Tensor, ...]]
"""Embeddings [B, S, D], mask [B, 1, S, S] and positions [B, S] → the input of the head, then every layer if requested."""
Capture = Callable[[nn.Module, tuple[Tensor, ...], Any], Pass]
"""A pass, sample inputs and a memory pool → the captured pass."""


class _Layers(nn.Module):
    """The pass as a module, so that the graph knows its weights."""

    def __init__(self, backbone: Backbone, all_layers: bool, learns: bool):
        super().__init__()
        self.inner, self.all_layers, self.learns = backbone.plain_model.base_model, all_layers, learns

    def forward(self, embeds: Tensor, mask: Tensor, positions: Tensor) -> tuple[Tensor, ...]:
        with torch.set_grad_enabled(self.learns):
            out = self.inner(
                inputs_embeds=embeds,
                attention_mask=mask,
                position_ids=positions,
                use_cache=False,
                output_hidden_states=self.all_layers,
            )
        return (out.last_hidden_state, *(out.hidden_states if self.all_layers else ()))


def captured(layers: nn.Module, samples: tuple[Tensor, ...], pool: Any) -> Pass:
    """Capture the pass as two CUDA graphs, forward and backward."""
    dtype = torch.get_autocast_dtype("cuda")
    torch.clear_autocast_cache()  # cached casts refer to the default stream, which a capture must not wait for
    # a cast cached outside would be missing from the graph
    with torch.autocast("cuda", dtype=dtype, enabled=torch.is_autocast_enabled("cuda"), cache_enabled=False):
        return torch.cuda.make_graphed_callables(layers, samples, allow_unused_input=True, pool=pool)  # type: ignore[return-value]


@dataclass
class Replay:
    """Captured passes by shape; each shape is captured when it first occurs."""

    backbone: Backbone  # the model whose layers run
    capture: Capture = captured  # captures a pass; see `captured`
    found: dict[tuple[Any, ...], Pass] = field(default_factory=dict)
    pool: Any = None
    _replayed_with_grad: bool = False

    def begin(self) -> None:
        """Start a new step: the outputs of the previous one are no longer needed."""
        self._replayed_with_grad = False

    def forget(self) -> None:
        """Free all graphs and their memory; gradients that come from a replay must have been freed before."""
        self.found.clear()
        self.pool = None
        gc.collect()  # a captured module and its replaced forward refer to each other
        if self.backbone.device.type == "cuda":
            torch.cuda.empty_cache()

    def __call__(self, embeds: Tensor, mask: Tensor | None, positions: Tensor, all_layers: bool) -> Any:
        """Return what `Backbone.trunk` returns, or None if the pass must run normally."""
        learns = torch.is_grad_enabled()
        if mask is None or mask.dim() != 4 or self._busy():
            return None
        rows, extra = len(embeds), -len(embeds) % ROWS
        given = (
            F.pad(embeds, (0, 0, 0, 0, 0, extra)),
            F.pad(mask, (0, 0, 0, 0, 0, 0, 0, extra), value=True),  # a fully masked row would give NaN
            F.pad(positions, (0, 0, 0, extra)),
        )
        found = self._replayed(_Layers(self.backbone, all_layers, learns), (learns, all_layers), given)
        if found is None:
            return None
        out = [one[:rows] for one in found]
        if not learns:
            out = [one.clone() for one in out]  # another replay may overwrite it
        return out[0], tuple(out[1:])

    def recur(self, passes: Passes, embeds: Tensor, seen: Tensor, positions: Tensor, latent: Tensor) -> Any:
        """Return what `rollout.Passes` returns for a training batch, or None if it must run normally."""
        config = self.backbone.plain_model.config
        activations = positions.numel() * config.hidden_size * config.num_hidden_layers
        if self._busy() or activations > LARGEST or seen.dim() != 4:
            return None
        if passes.project is not None and not isinstance(passes.project, nn.Module):
            return None  # a plain function may have weights that the graph does not know
        key = (passes.first, passes.end, passes.all_layers, id(passes.project))
        return self._replayed(passes, key, (embeds, seen, positions, latent))

    def _busy(self) -> bool:
        """Return whether no pass may be replayed now."""
        return self._replayed_with_grad or _adapter_switched(self.backbone)

    def _replayed(self, layers: nn.Module, how: tuple[Any, ...], given: tuple[Tensor, ...]) -> Any:
        """Run the graph of these shapes, capturing it if needed; None if the limit of graphs is reached."""
        learns = torch.is_grad_enabled()
        key = (type(layers), *how, given[0].shape, given[0].dtype, torch.is_autocast_enabled("cuda"))
        if key not in self.found and len(self.found) >= MOST:
            return None
        self._replayed_with_grad = learns
        if learns and not given[0].requires_grad:
            given = (given[0].detach().requires_grad_(), *given[1:])
        if key not in self.found:
            samples = tuple(one.detach().clone().requires_grad_(one.requires_grad) for one in given)
            if self.pool is None and given[0].is_cuda:
                self.pool = torch.cuda.graph_pool_handle()
            self.found[key] = self.capture(_Refolding(layers, self.backbone), samples, self.pool)
        return self.found[key](*given)


class _Refolding(nn.Module):
    """Layers that fold their adapters inside every call: a graph cannot use weights computed outside it."""

    def __init__(self, layers: nn.Module, backbone: Backbone):
        super().__init__()
        self.layers, self.backbone = layers, backbone

    def forward(self, *given: Tensor) -> tuple[Tensor, ...]:
        clear_folded(self.backbone)
        out = self.layers(*given)
        clear_folded(self.backbone)  # it is in the graph's memory
        return out


def _adapter_switched(backbone: Backbone) -> bool:
    """Return whether the adapter is switched off, or replaced by its start, for the moment."""
    adapted = backbone.adapted
    return adapted is not None and (adapted.disable_adapters or list(adapted.active_adapters) != [TRAINED])


def replay_passes(backbone: Backbone) -> None:
    """Replay the training passes of a backbone on an NVIDIA GPU; elsewhere do nothing."""
    if backbone.device.type == "cuda":
        backbone.replay = Replay(backbone)
