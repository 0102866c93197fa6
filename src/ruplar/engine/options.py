"""Options of the fast engine, and its requests."""

from collections.abc import Callable
from dataclasses import dataclass

from ruplar.engine.reference import Generation, Keep
from ruplar.engine.sampling import Decoding, Key
from ruplar.types import Prompt


@dataclass(frozen=True)
class EngineOptions:
    """Options of the fast engine."""

    columns: int = 256  # positions per slot at the start, from prompt to answer; `reserve` reallocates
    keep: Keep = "none"  # what to return of each latent
    # hold one copy of the weights: merge the adapter and let the model's modules share our matrices
    release: bool = False
    # use our Triton kernels on a GPU, for small batches in bfloat16 or float32; they are checked at the start
    kernels: bool = True


@dataclass(frozen=True)
class Request:
    """One question for the engine."""

    prompt: Prompt
    decoding: Decoding
    key: Key = 0  # name of its random stream
    # called by the engine's thread with the progress and the new latents; it must not raise, and return quickly
    listen: Callable[[Generation], None] | None = None
