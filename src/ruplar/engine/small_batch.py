"""Launch our Triton kernels on a GPU: the decode step of a small batch, and the greedy decision of any batch size.

Both are compared with the PyTorch operators when the engine starts; a difference is an error, never a silent fallback.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from ruplar.engine.decoder import At, Decoder, tolerance
from ruplar.engine.fused import Linear
from ruplar.engine.slot_state import DONE, HEADER, LATENTS, LIMIT, THINKING, TOKENS, SlotState
from ruplar.errors import UserError

TILE = 8192  # matrix elements per program: 16 KB in bfloat16, so that several programs fit on a multiprocessor
WARPS = 4  # warps per program
PIECE, PIECES = 256, 8  # vocabulary entries of a piece, and pieces per program of `candidates`


class KernelsDisagree(RuntimeError):
    """Our kernels and the PyTorch operators gave different results; a bug to report."""


def power_of_two(count: int) -> int:
    return 1 << (count - 1).bit_length()


def supports(head_dim: int) -> bool:
    return head_dim >= 16 and head_dim == power_of_two(head_dim)


def check_triton() -> None:
    try:
        from ruplar.engine import kernels  # noqa: F401
    except ImportError as error:
        raise UserError("kernels: triton is missing. Install it, or use EngineOptions(kernels=False).") from error


def check_difference(what: str, difference: float, dtype: torch.dtype) -> None:
    """Raise `KernelsDisagree` if a relative difference is NaN or larger than rounding can cause."""
    most = tolerance(dtype)
    if not difference <= most:
        raise KernelsDisagree(
            f"{what} kernels differ from the PyTorch operators by {difference:.3g} (rounding causes at most {most:g}). "
            "Use EngineOptions(kernels=False) and report this."
        )


@dataclass
class SmallBatchKernels:
    """The decode step of at most `max_rows` rows."""

    decoder: Decoder  # whose weights and cache are used
    early: bool = False  # programmatic dependent launch: a kernel loads its weights while the previous one still runs
    max_rows: int = 2  # batch size up to which this is faster than matrix products

    @classmethod
    def of(cls, decoder: Decoder, early: bool = False, check: bool = True) -> SmallBatchKernels | None:
        """Make the kernels of a decoder; None if its head size is not supported."""
        check_triton()
        if not supports(decoder.weights.head_dim):
            return None
        kernels = cls(decoder, early)
        if check:
            check_difference("decode", kernels.difference(), decoder.weights.table.dtype)
        return kernels

    @property
    def _launch(self) -> dict[str, bool]:
        return {"launch_pdl": True} if self.early else {}

    def step(self, embeds: Tensor, positions: Tensor) -> Tensor:
        """As `Decoder.step`; each row reads the columns up to its position."""
        from ruplar.engine import kernels

        w, rows = self.decoder.weights, len(embeds)
        x = embeds.clone()
        qkv = x.new_empty(rows, w.layers[0].qkv.weight.shape[0])
        read = x.new_empty(rows, w.heads * w.head_dim)
        inner = x.new_empty(rows, w.layers[0].down.weight.shape[1])
        for index, layer in enumerate(w.layers):
            self._project(x, layer.qkv, qkv, layer.norm_in)
            self._attend(index, qkv, positions, read)
            self._project(read, layer.out, x, None, add=True)
            size, width = inner.shape[1], x.shape[1]
            bk, bn = _tile(width, 2)
            bias = layer.gate_up.bias
            kernels.gate_up[(rows, -(-size // bn))](
                x, layer.gate_up.weight, bias if bias is not None else x, layer.norm_mid, inner, w.eps,
                size, width, bias is not None, bn, bk, self.early, num_warps=WARPS, **self._launch,
            )  # fmt: skip
            self._project(inner, layer.down, x, None, add=True)
        return F.rms_norm(x, (x.shape[1],), w.norm, w.eps)

    def logits(self, hidden: Tensor) -> Tensor:
        """Hidden [M, D] → float32 logits [M, V], rounded to the head's precision."""
        w = self.decoder.weights
        count = len(w.table)  # the head may be padded
        out = torch.empty(len(hidden), count, dtype=torch.float32, device=hidden.device)
        self._project(hidden, Linear(w.head.weight[:count], w.head.bias), out, None)
        return out

    def _project(self, x: Tensor, linear: Linear, out: Tensor, scale: Tensor | None, add: bool = False) -> None:
        from ruplar.engine import kernels

        n, k = linear.weight.shape
        bk, bn = _tile(k, 1)
        bias = linear.bias
        kernels.project[(len(x), -(-n // bn))](
            x, linear.weight, bias if bias is not None else x, scale if scale is not None else x, out,
            self.decoder.weights.eps, n, k, scale is not None, bias is not None, add, bn, bk, self.early,
            num_warps=WARPS, **self._launch,
        )  # fmt: skip

    def _attend(self, index: int, qkv: Tensor, positions: Tensor, read: Tensor) -> None:
        from ruplar.engine import kernels

        d = self.decoder
        w, layer, cache = d.weights, d.weights.layers[index], d.cache[index]
        norm = layer.norm_q is not None
        kernels.decode_attention[(w.heads, len(qkv))](
            qkv, cache, positions, d.cos, d.sin, layer.norm_q if norm else qkv, layer.norm_k if norm else qkv, read,
            positions.stride(0), cache.stride(0), d.columns, w.eps, w.head_dim**-0.5,
            w.heads, w.kv_heads, w.head_dim // 2, norm, TILE // w.head_dim, self.early, num_warps=WARPS, **self._launch,
        )  # fmt: skip

    @torch.inference_mode()
    def difference(self) -> float:
        """Largest relative difference of hidden states, logits and cache from the PyTorch operators, over three steps."""
        decoder, device = self.decoder, self.decoder.device
        layer_kernels, decoder.layer_kernels, decoder.small_batch = decoder.layer_kernels, None, None
        decoder.allocate(self.max_rows, 160)
        generator = torch.Generator().manual_seed(0)
        tokens = torch.randint(decoder.weights.table.shape[0], (self.max_rows, 140), generator=generator).to(device)
        lengths = torch.arange(129, 129 + self.max_rows, device=device)
        decoder.prefill(decoder.embed(tokens), lengths, slice(0, self.max_rows))
        cache = decoder.cache.clone()
        worst = 0.0
        for step in range(3):
            embeds, positions = decoder.embed(tokens[:, step]), lengths + step
            wanted = decoder.step(embeds, positions, 140)
            expected_cache, decoder.cache = decoder.cache, cache
            found = self.step(embeds, positions)
            decoder.cache = expected_cache
            for a, b in ((found, wanted), (self.logits(wanted), decoder.logits(wanted)), (cache, expected_cache)):
                worst = max(worst, float((a.float() - b.float()).norm() / b.float().norm()))
                worst = float("nan") if a.isnan().any() else worst
        decoder.layer_kernels = layer_kernels
        return worst


def _tile(width: int, matrices: int) -> tuple[int, int]:
    """Inputs and outputs of one tile: a whole matrix row if it fits, so that all its loads are in flight."""
    row = power_of_two(width)
    bk = row if row <= TILE // matrices else 2048
    return bk, max(1, TILE // bk // matrices)


@dataclass
class FusedDecision:
    """`SlotState.decide` without sampling, in two kernels."""

    state: SlotState
    decoder: Decoder  # gives logits and the table of embeddings
    buffers: dict[int, list[Tensor]] = field(default_factory=dict)

    @classmethod
    def fits(cls, state: SlotState) -> bool:
        """Whether the kernels support this thinker; they store neither latents nor logits."""
        thinker: Any = state.thinker
        soft = state.kind == "soft" and (thinker.harden or 0 < thinker.top_k <= 16)
        return state.keep in ("none", "readable") and (soft or state.kind in ("text", "none"))

    def decide(self, at: At, logits: Tensor, advance: bool) -> None:
        """Decide on logits [B, V] in any precision, with or without gaps between rows."""
        from ruplar.engine import decision_kernels

        state, thinker, table = self.state, self.state.thinker, self.decoder.weights.table
        options: Any = thinker
        soft, (rows, count) = state.kind == "soft", logits.shape
        top_k = (1 if options.harden else options.top_k) if soft else 1
        pieces = -(-count // PIECE)
        buffers, stride, m = self._buffers(rows, pieces), logits.stride(0), state.markers
        drop = soft and options.drop_halt
        halt_id = m.end_think_id if state.kind == "none" else options.end_think_id
        decision_kernels.candidates[(rows, -(-pieces // PIECES))](
            logits, *buffers, count, stride, pieces, halt_id, drop, PIECE, PIECES, num_warps=4
        )
        tops, sums, ids, kept = buffers
        decision_kernels.decide[(rows,)](
            logits, tops, sums, ids, kept if drop else tops, state.every[at], state.rows, state.embeds, table,
            count, stride, table.shape[1], state.rows.shape[1], pieces, thinker.cap, state.answers, halt_id, m.end_think_id,
            m.eos_id, state.pad_id,
            float(options.halt_threshold) if soft else 0.5, int(advance),
            soft, state.kind == "text", soft and options.halt == "argmax", drop, top_k,
            PIECE, power_of_two(pieces), 512, HEADER, num_warps=4,
        )  # fmt: skip

    @torch.inference_mode()
    def check(self) -> None:
        """Decide on random logits with the kernels and with PyTorch operators, from equal rows; leaves all slots idle.

        The logits are like the head's output: in its precision, with a gap between rows. The largest are no ties.
        """
        state, count, table = self.state, min(self.state.slots, 8), self.decoder.weights.table
        generator = torch.Generator().manual_seed(0)
        header = torch.randint(0, 2, (count, HEADER), generator=generator)
        header[:, [DONE, LATENTS, TOKENS]] = 0
        header[:, THINKING] *= int(state.thinker.thinks)
        header[:, LIMIT] = state.answers
        logits = torch.rand(count, len(table) + 64, generator=generator)
        largest = torch.rand(count, len(table), generator=generator).topk(min(32, len(table))).indices
        logits.scatter_(1, largest, 4.0 + 0.25 * torch.arange(32.0)[: largest.shape[1]].expand(count, -1))
        logits[::3, state.markers.end_think_id] += 40.0  # some halt, some end
        logits[1::3, state.markers.eos_id] += 40.0
        raw, found = logits.to(table.device, table.dtype)[:, : len(table)], []
        for fused, given in ((None, raw.float()), (self, raw)):
            state.fused, state.rows[:count, :HEADER] = fused, header.to(table.device)
            state.decide(slice(0, count), state.embeds[:count], given, sampled=False)
            found.append((state.rows[:count, : HEADER + 1].clone(), state.embeds[:count].clone()))
            state.rows.zero_()
            state.rows[:, DONE] = 1
            state.embeds.zero_()
        (rows, embeds), (our_rows, our_embeds) = found
        answered = rows[:, TOKENS] > 0  # the others have no token in column HEADER
        same = torch.equal(rows[:, :HEADER], our_rows[:, :HEADER])
        same = same and torch.equal(rows[answered, HEADER], our_rows[answered, HEADER])
        difference = float((embeds - our_embeds).float().norm() / embeds.float().norm())
        if not (same and difference <= tolerance(embeds.dtype)):
            raise KernelsDisagree(
                f"decision kernels differ from the PyTorch operators (same rows: {same}, next inputs by {difference:.3g}). "
                "Use EngineOptions(kernels=False) and report this."
            )

    def _buffers(self, rows: int, pieces: int) -> list[Tensor]:
        """`tops`, `sums`, `ids` and `kept` of the kernels."""
        if rows not in self.buffers:
            kinds, device = (torch.float32, torch.float32, torch.int32, torch.float32), self.state.rows.device
            self.buffers[rows] = [torch.empty(rows, pieces, dtype=kind, device=device) for kind in kinds]
        return self.buffers[rows]


def load_small_batch(decoder: Decoder) -> SmallBatchKernels | None:
    """Load the decode kernels if they can run: on a GPU, in bfloat16 or float32."""
    exact = torch.get_float32_matmul_precision() == "highest"  # the kernels do not round to TF32
    supported = (torch.bfloat16, torch.float32) if exact else (torch.bfloat16,)
    if decoder.device.type != "cuda" or decoder.weights.table.dtype not in supported:
        return None
    return SmallBatchKernels.of(decoder, early=torch.cuda.get_device_capability(decoder.device) >= (9, 0))


def load_fused_decision(state: SlotState, decoder: Decoder) -> FusedDecision | None:
    """Load the kernels of the greedy decision and check them; None if they do not support the thinker."""
    if not FusedDecision.fits(state):
        return None
    decision = FusedDecision(state, decoder)
    decision.check()
    return decision
