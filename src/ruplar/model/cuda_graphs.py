"""A backbone's parallel training pass → the same pass replayed as captured CUDA graphs: one launch where there were hundreds.

A small model's step takes the host longer to launch than the GPU to compute. What is captured is the pass through the
layers, forward and backward, which is most of it; losses stay as they are written. Rows of nothing are added until their
number is one of few, so that few graphs do:

    [ 61 packed rows ]  →  [ 61 rows | 3 empty ]  –graph of 64→  hidden  →  [ 61 rows ]

Latents made one from another take a pass each, every one too small for a GPU: those of a batch, from the first to the last,
are one graph (`rollout.Passes`).

A graph's results lie where its next replay will write, and all graphs work in one memory. So a step's first pass with
gradient is the last that is replayed in it: another would write over what its backward pass has yet to read.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ruplar.model.fold_lora import forget
from ruplar.model.lora import TRAINED

if TYPE_CHECKING:
    from ruplar.model.backbone import Backbone
    from ruplar.model.rollout import Passes

ROWS = 8
"""Their number is rounded up to a multiple of this."""
MOST = 64
"""Graphs that are captured; a shape that comes after them is run as it is."""
LARGEST = 32_768
"""Positions of a batch of recurrent latents that are captured; with more, the GPU has enough to do, and memory would run out."""

Pass = Callable[..., tuple[Tensor, ...]]
"""Embeddings [B, S, D], mask [B, 1, S, S] and positions [B, S] → the head's own input, then every layer's if asked for."""
Capture = Callable[[nn.Module, tuple[Tensor, ...], Any], Pass]
"""A pass, inputs of the shapes it will have, and a memory pool → the pass, replayed."""


class _Layers(nn.Module):
    """The pass as a module, whose weights a graph must know."""

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
    """The pass as CUDA graphs, one forward and one backward."""
    dtype = torch.get_autocast_dtype("cuda")
    torch.clear_autocast_cache()  # its casts hold on to gradients' way to the default stream, which no capture may wait for
    # a cast that autocast remembers from outside would be missing from the graph
    with torch.autocast("cuda", dtype=dtype, enabled=torch.is_autocast_enabled("cuda"), cache_enabled=False):
        return torch.cuda.make_graphed_callables(layers, samples, allow_unused_input=True, pool=pool)  # type: ignore[return-value]


@dataclass
class Replay:
    """Passes by shape, captured where they are first met.

    Attributes:
        backbone: Whose layers they run.
        capture: What makes a graph.
    """

    backbone: Backbone
    capture: Capture = captured
    found: dict[tuple[Any, ...], Pass] = field(default_factory=dict)
    pool: Any = None
    _under_way: bool = False

    def begin(self) -> None:
        """A new step: nothing of the last one is needed any more."""
        self._under_way = False

    def forget(self) -> None:
        """Let go of all graphs and of the memory they work in; gradients taken from a replay must be gone by then."""
        self.found.clear()
        self.pool = None
        gc.collect()  # a captured module and what was put in its forward's place hold each other
        if self.backbone.device.type == "cuda":
            torch.cuda.empty_cache()

    def __call__(self, embeds: Tensor, mask: Tensor | None, positions: Tensor, all_layers: bool) -> Any:
        """What `Backbone.trunk` returns; None where the pass is to be run as it is."""
        learns = torch.is_grad_enabled()
        if mask is None or mask.dim() != 4 or self._busy():
            return None
        rows, extra = len(embeds), -len(embeds) % ROWS
        given = (
            F.pad(embeds, (0, 0, 0, 0, 0, extra)),
            F.pad(mask, (0, 0, 0, 0, 0, 0, 0, extra), value=True),  # a row that may look at nothing would be no number
            F.pad(positions, (0, 0, 0, extra)),
        )
        found = self._replayed(_Layers(self.backbone, all_layers, learns), (learns, all_layers), given)
        if found is None:
            return None
        out = [one[:rows] for one in found]
        if not learns:
            out = [one.clone() for one in out]  # there may be another replay while it is needed
        return out[0], tuple(out[1:])

    def recur(self, passes: Passes, embeds: Tensor, seen: Tensor, positions: Tensor, latent: Tensor) -> Any:
        """What `rollout.Passes` returns, of a batch that is being trained on; None where it is to be run as it is."""
        if self._busy() or positions.numel() > LARGEST or seen.dim() != 4:
            return None
        if passes.project is not None and not isinstance(passes.project, nn.Module):
            return None  # the weights of a function, if it has any, are not known
        key = (passes.first, passes.end, passes.all_layers, id(passes.project))
        return self._replayed(passes, key, (embeds, seen, positions, latent))

    def _busy(self) -> bool:
        """Whether nothing may be replayed now."""
        return self._under_way or _left_out(self.backbone)

    def _replayed(self, layers: nn.Module, how: tuple[Any, ...], given: tuple[Tensor, ...]) -> Any:
        """The graph of these shapes, captured now if need be, with these inputs; None if there can be none."""
        learns = torch.is_grad_enabled()
        key = (type(layers), *how, given[0].shape, given[0].dtype, torch.is_autocast_enabled("cuda"))
        if key not in self.found and len(self.found) >= MOST:
            return None
        self._under_way = learns
        if learns and not given[0].requires_grad:
            given = (given[0].detach().requires_grad_(), *given[1:])
        if key not in self.found:
            samples = tuple(one.detach().clone().requires_grad_(one.requires_grad) for one in given)
            if self.pool is None and given[0].is_cuda:
                self.pool = torch.cuda.graph_pool_handle()
            self.found[key] = self.capture(_Afresh(layers, self.backbone), samples, self.pool)
        return self.found[key](*given)


class _Afresh(nn.Module):
    """Layers that fold their adapters within every call, as a graph must: it cannot reach what another has made."""

    def __init__(self, layers: nn.Module, backbone: Backbone):
        super().__init__()
        self.layers, self.backbone = layers, backbone

    def forward(self, *given: Tensor) -> tuple[Tensor, ...]:
        forget(self.backbone)
        out = self.layers(*given)
        forget(self.backbone)  # it lies in the graph's memory
        return out


def _left_out(backbone: Backbone) -> bool:
    """Whether the pass is one of another model: the adapter is switched off for a while, or its start stands in for it."""
    adapted = backbone.adapted
    return adapted is not None and (adapted.disable_adapters or list(adapted.active_adapters) != [TRAINED])


def replay_passes(backbone: Backbone) -> None:
    """Have a backbone on an NVIDIA GPU replay its training passes; on others nothing changes."""
    if backbone.device.type == "cuda":
        backbone.replay = Replay(backbone)
