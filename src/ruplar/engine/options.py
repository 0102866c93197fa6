"""Options of the fast engine, and its requests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from ruplar.engine.reference import Generation, Keep
from ruplar.engine.sampling import Decoding, Key
from ruplar.types import Prompt


@dataclass(frozen=True)
class EngineOptions:
    """Options of the fast engine.

    Attributes:
        columns: Positions per slot at the start, from prompt to answer; `reserve` reallocates.
        keep: What to return of each latent.
        release: Hold one copy of the weights: merge the adapter and let the model's modules share our matrices.
        graphs: Capture CUDA graphs; no effect on a CPU.
        kernels: Use our Triton kernels on a GPU, for small batches only in bfloat16; they are checked at the start.
        early: Programmatic dependent launch: a kernel loads its weights while the previous one still runs; None: if the
            GPU supports it (compute capability 9 and up).
        prefill_tokens: Most padded tokens of one prefill; 0: a default for CPU or GPU.
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
    """One question for the engine.

    Attributes:
        prompt: The prompt.
        decoding: How it is decoded.
        key: Name of its random stream.
        replay: [N, D] latents to feed, for a `ReplayThinker`.
        listen: Called by the engine's thread with the progress; of stored latents it gets only the new ones. It must not
            raise and must return quickly.
    """

    prompt: Prompt
    decoding: Decoding
    key: Key = 0
    replay: Tensor | None = None
    listen: Callable[[Generation], None] | None = None
