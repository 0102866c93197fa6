"""A decode step of a handful of rows, and the greedy decision of any number, through our own kernels on a GPU.

Both are held to the plain operators when the engine starts: what disagrees is an error, never a quiet fallback.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional as F

from ruplar.engine.fused import Linear
from ruplar.engine.rounding import power_of_two
from ruplar.errors import UserError

if TYPE_CHECKING:
    from ruplar.engine.decoder import At, Decoder
    from ruplar.engine.slot_state import SlotState

TILE = 8192  # matrix elements a program holds at once: 16 KB in bfloat16, and several programs share a processor
PIECE = 1024  # tokens of the vocabulary a program of `candidates` looks through
TOLERANCE = 5e-2  # relative, between two bfloat16 ways of computing one step; a wrong kernel is off by far more


class KernelsDisagree(RuntimeError):
    """Our kernels and the plain operators computed different things; a defect, to be reported."""


def load_kernels() -> None:
    """Import the kernels.

    Raises:
        UserError: Triton is not there.
    """
    try:
        from ruplar.engine import kernels  # noqa: F401
    except ImportError as error:
        raise UserError(
            "kernels: triton is not installed. Install it, or use EngineOptions(kernels=False)."
        ) from error


@dataclass
class FewRows:
    """The decoder's step for at most `most` rows.

    Attributes:
        decoder: Whose weights and cache are used.
        early: Let each kernel load its weights while the one ahead is still running.
        most: Rows up to which this is faster than matrix products.
    """

    decoder: Decoder
    early: bool = False
    most: int = 2

    @classmethod
    def of(cls, decoder: Decoder, early: bool = False, check: bool = True) -> FewRows | None:
        """Kernels for this decoder, checked; None where its heads are of a width they do not handle.

        Args:
            decoder: The decoder.
            early: See `FewRows`.
            check: Compare with the decoder's own operators first.

        Raises:
            KernelsDisagree: They do not compute what the decoder computes.
        """
        load_kernels()
        half = decoder.weights.head_dim // 2
        if half & (half - 1) or half < 8:
            return None
        rows = cls(decoder, early)
        if check:
            difference = rows.difference()
            if not difference <= TOLERANCE:  # a NaN is no agreement either
                raise KernelsDisagree(
                    f"decoding kernels differ from the plain operators by {difference:.3g} (at most {TOLERANCE} is "
                    "rounding). Use EngineOptions(kernels=False) and report this."
                )
        return rows

    @property
    def _launch(self) -> dict[str, bool]:
        return {"launch_pdl": True} if self.early else {}

    def step(self, embeds: Tensor, positions: Tensor) -> Tensor:
        """As `Decoder.step`; which columns are read follows from the positions."""
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
                size, width, bias is not None, bn, bk, self.early, num_warps=4, **self._launch,
            )  # fmt: skip
            self._project(inner, layer.down, x, None, add=True)
        return F.rms_norm(x, (x.shape[1],), w.norm, w.eps)

    def logits(self, hidden: Tensor) -> Tensor:
        """Hidden [M, D] → float32 logits [M, V], rounded as the head's own precision would."""
        head = self.decoder.weights.head
        out = torch.empty(len(hidden), head.weight.shape[0], dtype=torch.float32, device=hidden.device)
        self._project(hidden, head, out, None)
        return out

    def _project(self, x: Tensor, linear: Linear, out: Tensor, scale: Tensor | None, add: bool = False) -> None:
        from ruplar.engine import kernels

        n, k = linear.weight.shape
        bk, bn = _tile(k, 1)
        bias = linear.bias
        kernels.project[(len(x), -(-n // bn))](
            x, linear.weight, bias if bias is not None else x, scale if scale is not None else x, out,
            self.decoder.weights.eps, n, k, scale is not None, bias is not None, add, bn, bk, self.early,
            num_warps=4, **self._launch,
        )  # fmt: skip

    def _attend(self, index: int, qkv: Tensor, positions: Tensor, read: Tensor) -> None:
        from ruplar.engine import kernels

        d = self.decoder
        w, layer, cache = d.weights, d.weights.layers[index], d.cache[index]
        norm = layer.norm_q is not None
        kernels.attend[(w.heads, len(qkv))](
            qkv, cache, positions, d.cos, d.sin, layer.norm_q if norm else qkv, layer.norm_k if norm else qkv, read,
            positions.stride(0), cache.stride(0), d.columns, w.eps, w.head_dim**-0.5,
            w.heads, w.kv_heads, w.head_dim // 2, norm, TILE // w.head_dim, self.early, num_warps=4, **self._launch,
        )  # fmt: skip

    @torch.inference_mode()
    def difference(self) -> float:
        """Relative difference of hidden states and logits from the plain operators', over prefilled, growing slots."""
        decoder, device = self.decoder, self.decoder.device
        decoder.few_rows = None
        decoder.allocate(self.most, 160)
        generator = torch.Generator().manual_seed(0)
        tokens = torch.randint(decoder.weights.table.shape[0], (self.most, 140), generator=generator).to(device)
        lengths = torch.arange(129, 129 + self.most, device=device)
        decoder.prefill(decoder.embed(tokens), lengths, slice(0, self.most))
        cache = decoder.cache.clone()
        worst = 0.0
        for step in range(3):
            embeds, positions = decoder.embed(tokens[:, step]), lengths + step
            wanted = decoder.step(embeds, positions, 140)
            theirs, decoder.cache = decoder.cache, cache
            found = self.step(embeds, positions)
            decoder.cache = theirs
            for a, b in ((found, wanted), (self.logits(wanted), decoder.logits(wanted)), (cache, theirs)):
                worst = max(worst, float((a.float() - b.float()).norm() / b.float().norm()))
                if a.isnan().any():
                    return float("nan")
        return worst


def _tile(width: int, matrices: int) -> tuple[int, int]:
    """Inputs and outputs of one tile: a row of the matrix whole where it fits, so that all its loads are in flight."""
    whole = power_of_two(width)
    bk = whole if whole <= TILE // matrices else 2048
    return bk, max(1, TILE // bk // matrices)


@dataclass
class FusedDecision:
    """`Ledger.decide` of a greedy ledger in two kernels."""

    ledger: SlotState
    table: Tensor  # [V, D] what each token reads
    buffers: dict[int, list[Tensor]] = field(default_factory=dict)

    @classmethod
    def fits(cls, ledger: SlotState) -> bool:
        """Whether the kernels know this thinker, and nothing of the latents is kept."""
        thinker: Any = ledger.thinker
        soft = ledger.kind == "soft" and (thinker.harden or 0 < thinker.top_k <= 16)
        return ledger.keep == "none" and (soft or ledger.kind in ("text", "none"))

    def decide(self, at: At, logits: Tensor, advance: bool) -> None:
        """See `Ledger.decide`."""
        from ruplar.engine import decision_kernels as deciding
        from ruplar.engine.slot_state import HEAD

        book, thinker, table = self.ledger, self.ledger.thinker, self.table
        options: Any = thinker
        soft, (rows, count) = book.kind == "soft", logits.shape
        kept = (1 if options.harden else options.top_k) if soft else 1
        pieces = -(-count // PIECE)
        made = self._buffers(rows, pieces, kept)
        m = book.markers
        deciding.candidates[(rows, pieces)](
            logits, *made, count, m.end_think, kept if soft else 0, soft and options.drop_halt, PIECE, num_warps=4
        )
        deciding.decide[(rows,)](
            logits, *made, book.every[at], book.rows, book.embeds, table,
            count, table.shape[1], book.rows.shape[1], pieces, thinker.cap, book.answers, m.end_think, m.eos, m.pad,
            float(options.halt_threshold) if soft else 0.5, int(advance),
            soft, book.kind == "text", soft and options.halt == "argmax", kept,
            power_of_two(pieces), power_of_two(pieces * kept), 512, HEAD, num_warps=4,
        )  # fmt: skip

    @torch.inference_mode()
    def check(self) -> None:
        """Decide on random logits by kernels and by plain operators, from the same rows; leaves the ledger idle.

        Raises:
            KernelsDisagree: They do not come to the same decisions.
        """
        from ruplar.engine.slot_state import DONE, HEAD, LIMIT, MADE, SAID, THINKING

        book, count = self.ledger, min(self.ledger.slots, 8)
        generator = torch.Generator().manual_seed(0)
        header = torch.randint(0, 2, (count, HEAD), generator=generator)
        header[:, [DONE, MADE, SAID]] = 0
        header[:, THINKING] *= int(book.thinker.thinks)
        header[:, LIMIT] = book.answers
        logits = 4.0 * torch.randn(count, len(self.table), generator=generator)
        logits[::3, book.markers.end_think] += 40.0  # some halt, some end
        logits[1::3, book.markers.eos] += 40.0
        given, found = logits.to(self.table.device), []
        for fused in (None, self):
            book.fused, book.rows[:count, :HEAD] = fused, header.to(self.table.device)
            book.decide(slice(0, count), book.embeds[:count], given, sampled=False)
            found.append(
                (book.rows[:count, :HEAD].clone(), book.rows[:count, HEAD].clone(), book.embeds[:count].clone())
            )
            book.rows.zero_()
            book.rows[:, DONE] = 1
            book.embeds.zero_()
        (rows, said, embeds), (our_rows, our_said, our_embeds) = found
        spoke = rows[:, SAID] > 0
        same = torch.equal(rows, our_rows) and torch.equal(said[spoke], our_said[spoke])
        difference = float((embeds - our_embeds).float().norm() / embeds.float().norm())
        if not (same and difference <= TOLERANCE):
            raise KernelsDisagree(
                f"deciding kernels differ from the plain operators (same rows: {same}, next inputs by {difference:.3g}). "
                "Use EngineOptions(kernels=False) and report this."
            )

    def _buffers(self, rows: int, pieces: int, kept: int) -> list[Tensor]:
        if rows not in self.buffers:
            device = self.ledger.rows.device
            real, whole = torch.float32, torch.int32
            small, large = (rows, pieces), (rows, pieces, kept)
            self.buffers[rows] = [
                *(torch.empty(small, dtype=dtype, device=device) for dtype in (real, real, whole)),
                *(torch.empty(large, dtype=dtype, device=device) for dtype in (real, whole)),
            ]
        return self.buffers[rows]


def few_rows(decoder: Decoder, early: bool | None) -> FewRows | None:
    """The kernels for a handful of rows where they can run: on a GPU, in bfloat16. See `EngineOptions` for `early`."""
    if decoder.device.type != "cuda" or decoder.weights.table.dtype != torch.bfloat16:
        return None
    if early is None:
        early = torch.cuda.get_device_capability(decoder.device) >= (9, 0)
    return FewRows.of(decoder, early)


def fused_decision(ledger: SlotState, decoder: Decoder) -> FusedDecision | None:
    """The kernels for greedy decisions where they know the thinker; checked."""
    if not FusedDecision.fits(ledger):
        return None
    decision = FusedDecision(ledger, decoder.weights.table)
    decision.check()
    return decision
