"""What a fast engine may use, and what it is asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from ruplar.engine.reference import Generation, Keep
from ruplar.engine.sampling import Decoding, Key
from ruplar.types import Prompt


@dataclass(frozen=True)
class EngineOptions:
    """What a fast engine may use.

    Attributes:
        columns: Positions a question may take at first, from prompt to answer; `reserve` makes more.
        keep: What is kept of each latent.
        release: Keep one copy of the weights: fold an adapter in for good and let the model look into ours.
        graphs: Capture CUDA graphs; nothing on a CPU.
        kernels: On a GPU in bfloat16, decode few rows through our own kernels; they are checked at the start.
        early: With kernels: let each load its weights while the one ahead is still running; None: where the GPU can (from
            compute capability 9 on).
        prefill_tokens: Most padded tokens of one prefill; 0: what a CPU's cache holds, or what fills a GPU.
    """

    columns: int = 256
    keep: Keep = "none"
    release: bool = False
    graphs: bool = True
    kernels: bool = True
    early: bool | None = None
    prefill_tokens: int = 0


@dataclass(frozen=True)
class Request:
    """One question as the engine takes it: its prompt, how it is decoded, the name of its random stream, given latents.

    `listen` hears of it while it is under way: called by the engine's thread with what there is so far; of the kept
    latents only those that are new. It may not raise and must be quick.
    """

    prompt: Prompt
    decoding: Decoding
    key: Key = 0
    replay: Tensor | None = None
    listen: Callable[[Generation], None] | None = None
