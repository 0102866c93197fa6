"""Compile every Triton kernel for a Hopper GPU, without one, with the arguments of Llama-3.2-1B; one line each.

The interpreter that `kernel_checks.py` uses runs Python and so accepts what the compiler refuses. test_kernels.py starts it
in a process of its own.
"""

import inspect
import sys

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from ruplar.engine import decision_kernels, kernels

BF16, F32, I32, I64 = "*bf16", "*fp32", "*i32", "*i64"
SHAPE = {"H": 32, "G": 8, "HALF": 32}
PROJECTED, ROTATED = ("x", "weight", "bias", "scale", "out"), ("qkv", "cos", "sin", "norm_q", "norm_k", "cache")
CANDIDATES = {"tops": F32, "sums": F32, "ids": I32, "kept": F32}


def calls():
    """(kernel, types of its tensors, its constants); all other arguments are numbers."""
    for kind, early in ((BF16, False), (BF16, True), (F32, True)):
        for k, bn in ((2048, 4), (8192, 1)):
            for norm, add in ((True, False), (False, True)):
                fixed = {"N": 2048, "K": k, "NORM": norm, "BIAS": False, "ADD": add, "BN": bn, "BK": k, "EARLY": early}
                yield "project", dict.fromkeys(PROJECTED, kind), fixed
        fixed = {"N": 8192, "K": 2048, "BIAS": False, "BN": 2, "BK": 2048, "EARLY": early}
        yield "gate_up", dict.fromkeys(PROJECTED, kind), fixed
        for norm in (False, True):
            fixed = {**SHAPE, "NORM": norm, "BC": 128, "EARLY": early}
            yield "decode_attention", {**dict.fromkeys(ROTATED, kind), "out": kind, "positions": I64}, fixed
    for kind, norm, width in ((BF16, False, 64), (BF16, True, 128), (F32, False, 64)):
        fixed = {"H": 32, "G": 8, "WIDTH": width, "NORM": norm, "BQ": 16, "BC": 4096 // width}
        yield "grouped_attention", {**dict.fromkeys(ROTATED, kind), "out": kind, "positions": I64}, fixed
    for norm in (False, True):
        tensors = {**dict.fromkeys(ROTATED, BF16), "slots": I64}
        yield "rotate_and_store", tensors, {**SHAPE, "NORM": norm, "BH": 64, "BG": 8}
    yield "silu_mul", {"both": BF16, "out": BF16}, {"BI": 1024}
    fixed = {"SOFT": True, "TEXT": False, "BY_ARGMAX": False, "DROP": True, "BD": 512, "HEAD": 8}
    for kind, top_k in ((BF16, 10), (F32, 1)):
        yield "candidates", {**CANDIDATES, "logits": kind}, {"DROP": True, "PIECE": 256, "BP": 8}
        tensors = {**CANDIDATES, "logits": kind, "slots": I64, "rows": I64, "embeds": BF16, "table": BF16}
        yield "decide", tensors, {**fixed, "TOP_K": top_k, "PIECE": 256, "BP": 512}


def main() -> None:
    for name, tensors, fixed in calls():
        kernel = getattr(kernels, name, None) or getattr(decision_kernels, name)
        names = list(inspect.signature(kernel.fn).parameters)
        numbers = {"eps": "fp32", "factor": "fp32", "threshold": "fp32"}
        kinds = {n: "constexpr" if n in fixed else tensors.get(n, numbers.get(n, "i32")) for n in names}
        made = triton.compile(
            ASTSource(fn=kernel, signature=kinds, constexprs=fixed),
            target=GPUTarget("cuda", 90, 32),
            options={"num_warps": 4},
        )
        sys.stdout.write(f"compiled {name} {len(made.asm['cubin'])}\n")


if __name__ == "__main__":
    main()
