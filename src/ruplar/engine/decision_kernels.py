"""Triton kernels of the greedy decision: logits of any batch size → next inputs and slot state, in two launches.

    candidates (per piece of the vocabulary: largest logit, sum, top k) · decide (all pieces of a row: the decision)

Axes: V vocabulary, D width.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def candidates(
    logits, tops, sums, ids, top_values, top_ids, V, halt,
    TOP_K: tl.constexpr, DROP: tl.constexpr, BV: tl.constexpr,
):  # fmt: skip
    """A piece of the vocabulary → its largest logit and index, its sum of exponentials, and its TOP_K largest without halt."""
    row = tl.program_id(0)
    piece = tl.program_id(1)
    pieces = tl.num_programs(1)
    at = piece * BV + tl.arange(0, BV)
    given = tl.load(logits + row * V + at, mask=at < V, other=-float("inf"))
    top, where = tl.max(given, 0, return_indices=True)
    place = row * pieces + piece
    tl.store(tops + place, top)
    tl.store(ids + place, piece * BV + where)
    tl.store(sums + place, tl.sum(tl.exp(given - top), 0))
    if DROP:
        given = tl.where(at == halt, -float("inf"), given)
    for rank in tl.static_range(TOP_K):
        top, where = tl.max(given, 0, return_indices=True)
        tl.store(top_values + place * TOP_K + rank, top)
        tl.store(top_ids + place * TOP_K + rank, tl.minimum(piece * BV + where, V - 1))
        given = tl.where(at == piece * BV + where, -float("inf"), given)


@triton.jit
def decide(
    logits, tops, sums, ids, top_values, top_ids, slots, rows, embeds, table,
    V, width, row_size, pieces, cap, answers, halt_id, end_think, eos, pad, threshold, advance,
    SOFT: tl.constexpr, TEXT: tl.constexpr, BY_ARGMAX: tl.constexpr, TOP_K: tl.constexpr,
    BP: tl.constexpr, BQ: tl.constexpr, BD: tl.constexpr, HEAD: tl.constexpr,
):  # fmt: skip
    """The decision of one row, as `SlotState.decide` without sampling: latent or token, state, next input.

    `halt_id` ends the thought in the thinker's view, -1 if nothing does; `end_think` is fed then.
    """
    row = tl.program_id(0)
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
        halt = tl.exp(tl.load(logits + row * V + halt_id) - top) / total > threshold
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

    q = tl.arange(0, BQ)
    mix_ids = tl.zeros([16], tl.int64)
    mix_weights = tl.zeros([16], tl.float32)
    if SOFT:
        some = tl.load(top_values + row * pieces * TOP_K + q, mask=q < pieces * TOP_K, other=-float("inf"))
        for rank in tl.static_range(TOP_K):
            value, where = tl.max(some, 0, return_indices=True)
            which = tl.load(top_ids + row * pieces * TOP_K + where).to(tl.int64)
            mix_ids = tl.where(tl.arange(0, 16) == rank, which, mix_ids)
            mix_weights = tl.where(tl.arange(0, 16) == rank, tl.exp(value - top), mix_weights)
            some = tl.where(q == where, -float("inf"), some)
        mix_weights = mix_weights / tl.maximum(tl.sum(mix_weights, 0), 1.1754944e-38)
    for start in range(0, width, BD):
        d = start + tl.arange(0, BD)
        next_input = tl.load(table + fed * width + d, mask=d < width, other=0.0).to(tl.float32)
        if SOFT:
            use = (tl.arange(0, 16) < TOP_K)[:, None] & (d < width)[None, :]
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
