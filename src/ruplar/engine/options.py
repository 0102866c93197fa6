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
        kernels: Use our Triton kernels on a GPU, for small batches only in bfloat16; they are checked at the start.
    """

    columns: int = 256
    keep: Keep = "none"
    release: bool = False
    kernels: bool = True


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
