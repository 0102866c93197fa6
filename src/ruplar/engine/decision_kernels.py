"""Triton kernels of the greedy decision: logits of any batch size → next inputs and slot state, in two launches.

    candidates (per piece of the vocabulary: largest logit, sum) · decide (all pieces of a row: top k, the decision)

The k largest logits of a row are in the k pieces with the largest maxima, so only these are read again. Logits may have any
precision and gaps between rows; all arithmetic is float32.

Axes: V vocabulary, D width.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def candidates(
    logits, tops, sums, ids, kept, V, stride, pieces, halt, DROP: tl.constexpr, PIECE: tl.constexpr, BP: tl.constexpr
):
    """BP pieces of a row → of each the largest logit and its index, the sum of exponentials, the largest without halt."""
    row = tl.program_id(0).to(tl.int64)
    piece = tl.program_id(1) * BP + tl.arange(0, BP)
    at = piece[:, None] * PIECE + tl.arange(0, PIECE)[None, :]
    given = tl.load(logits + row * stride + at, mask=at < V, other=-float("inf")).to(tl.float32)
    top, where = tl.max(given, 1, return_indices=True)
    place = row * pieces + piece
    real = piece < pieces
    tl.store(tops + place, top, mask=real)
    tl.store(ids + place, piece * PIECE + where, mask=real)
    tl.store(sums + place, tl.sum(tl.exp(given - top[:, None]), 1), mask=real)
    if DROP:
        tl.store(kept + place, tl.max(tl.where(at == halt, -float("inf"), given), 1), mask=real)


@triton.jit
def decide(
    logits, tops, sums, ids, kept, slots, rows, embeds, table,
    V, stride, width, row_size, pieces, cap, answers, halt_id, end_think, eos, pad, threshold, advance,
    SOFT: tl.constexpr, TEXT: tl.constexpr, BY_ARGMAX: tl.constexpr, DROP: tl.constexpr, TOP_K: tl.constexpr,
    PIECE: tl.constexpr, BP: tl.constexpr, BD: tl.constexpr, HEAD: tl.constexpr,
):  # fmt: skip
    """The decision of one row, as `SlotState.decide` without sampling: latent or token, state, next input.

    `halt_id` ends the thought in the thinker's view, -1 if nothing does; `end_think` is fed then. `kept` has the largest
    logits that may be mixed. TOP_K is at most 16.
    """
    row = tl.program_id(0).to(tl.int64)
    logits += row * stride
    slot = tl.load(slots + row)
    mine = rows + slot * row_size
    done, thinking, made, said = tl.load(mine), tl.load(mine + 1), tl.load(mine + 2), tl.load(mine + 3)
    halted, ended, position, limit = tl.load(mine + 4), tl.load(mine + 5), tl.load(mine + 6), tl.load(mine + 7)
    p = tl.arange(0, BP)
    piece_tops = tl.load(tops + row * pieces + p, mask=p < pieces, other=-float("inf"))
    top, piece = tl.max(piece_tops, 0, return_indices=True)
    token = tl.load(ids + row * pieces + piece).to(tl.int64)
    piece_sums = tl.load(sums + row * pieces + p, mask=p < pieces, other=0.0)
    total = tl.sum(piece_sums * tl.exp(piece_tops - top), 0)
    halt = token == halt_id
    if SOFT and not BY_ARGMAX:
        halt = tl.exp(tl.load(logits + halt_id).to(tl.float32) - top) / total > threshold
    thinks = (thinking != 0) & (done == 0)
    says = (thinking == 0) & (done == 0)
    continues = thinks & (halt == 0) & (made < cap)
    fed = tl.where(says, token, pad)
    fed = tl.where(thinks, end_think, fed)
    if TEXT:
        fed = tl.where(continues, token, fed)
        thought_place = HEAD + answers + 1 + tl.where(continues, made, cap)
        tl.store(mine + thought_place, token)
    tl.store(mine + HEAD + tl.where(says, said, answers), token)

    sixteen = tl.arange(0, 16)
    mix_ids = tl.zeros([16], tl.int64)
    mix_weights = tl.zeros([16], tl.float32)
    if SOFT and TOP_K == 1:  # one token, so nothing to mix
        best = tl.load(kept + row * pieces + p, mask=p < pieces, other=-float("inf"))
        value, piece = tl.max(best, 0, return_indices=True)
        at = piece * PIECE + tl.arange(0, PIECE)
        given = tl.load(logits + at, mask=at < V, other=-float("inf")).to(tl.float32)
        if DROP:
            given = tl.where(at == halt_id, -float("inf"), given)
        value, where = tl.max(given, 0, return_indices=True)
        fed = tl.where(continues, (piece * PIECE + where).to(tl.int64), fed)
    elif SOFT:
        best = tl.load(kept + row * pieces + p, mask=p < pieces, other=-float("inf"))
        chosen = tl.full([16], -1, tl.int32)  # -1: no piece, where there are fewer than TOP_K
        for rank in range(TOP_K):
            value, where = tl.max(best, 0, return_indices=True)
            chosen = tl.where(sixteen == rank, tl.where(value > -float("inf"), where, -1), chosen)
            best = tl.where(p == where, -float("inf"), best)
        at = chosen[:, None] * PIECE + tl.arange(0, PIECE)[None, :]
        given = (chosen >= 0)[:, None] & (at < V)
        if DROP:
            given = given & (at != halt_id)
        some = tl.reshape(tl.load(logits + at, mask=given, other=-float("inf")).to(tl.float32), [16 * PIECE])
        q = tl.arange(0, 16 * PIECE)
        for rank in range(TOP_K):
            value, where = tl.max(some, 0, return_indices=True)
            in_piece = tl.sum(tl.where(sixteen == where // PIECE, chosen, 0), 0)
            which = tl.minimum(tl.maximum(in_piece * PIECE + where % PIECE, 0), V - 1).to(tl.int64)
            mix_ids = tl.where(sixteen == rank, which, mix_ids)
            mix_weights = tl.where(sixteen == rank, tl.exp(value - top), mix_weights)
            some = tl.where(q == where, -float("inf"), some)
        mix_weights = mix_weights / tl.maximum(tl.sum(mix_weights, 0), 1.1754944e-38)
    for start in range(0, width, BD):
        d = start + tl.arange(0, BD)
        next_input = tl.load(table + fed * width + d, mask=d < width, other=0.0).to(tl.float32)
        if SOFT and TOP_K > 1:
            use = (sixteen < TOP_K)[:, None] & (d < width)[None, :]
            tile = tl.load(table + mix_ids[:, None] * width + d[None, :], mask=use, other=0.0).to(tl.float32)
            next_input = tl.where(continues, tl.sum(tile * mix_weights[:, None], 0), next_input)
        tl.store(embeds + slot * width + d, next_input.to(embeds.dtype.element_ty), mask=d < width)

    said_now = said + says.to(tl.int64)
    ends = says & (token == eos)
    over = (done != 0) | ends | (says & (said_now >= limit))
    cut = thinks & (continues == 0) & (halt == 0)
    tl.store(mine, over.to(tl.int64))
    tl.store(mine + 1, continues.to(tl.int64))
    tl.store(mine + 2, made + continues.to(tl.int64))
    tl.store(mine + 3, said_now)
    tl.store(mine + 4, tl.where(cut, 0, halted))
    tl.store(mine + 5, tl.where(ends, 1, ended))
    tl.store(mine + 6, position + tl.where(done == 0, advance, 0))
