"""Triton kernels of the forward pass: the decode step of a small batch, and the operators between matrix products.

At batch size 1 a step is bound by reading all weights, so a kernel here is one pass over one matrix with everything around
it fused: the norm before (its scale is applied to x, its factor to the sum), bias, SiLU and residual after. A program takes a
few rows of the matrix and all of x; rows of x are the fastest grid axis, so that a matrix tile is read from memory once.

    small batch  project(norm, q|k|v) · decode_attention · project(residual) · gate_up(norm, SiLU) · project(residual)
    any batch    between matrix products: grouped_attention, or rotate_and_store of a prefill (rotate q and k, store k and v);
                 silu_mul

With EARLY a kernel starts while the previous one still runs, and loads its tile of weights before it waits for its input
(programmatic dependent launch). Before that wait it may only read what the previous kernel does not write: weights, and what
was written before that kernel, since it triggered this launch after its own wait. Sums are float32.

Axes: M rows, N outputs, K inputs.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _await_input():
    """Wait until the previous kernel has written its output, then let the next one start to load its weights."""
    tl.extra.cuda.gdc_wait()
    tl.extra.cuda.gdc_launch_dependents()


@triton.jit
def project(
    x, weight, bias, scale, out, eps,
    N: tl.constexpr, K: tl.constexpr, NORM: tl.constexpr, BIAS: tl.constexpr, ADD: tl.constexpr,
    BN: tl.constexpr, BK: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    """From x [M, K] → out [M, N] = weight [N, K] · norm(x) + bias, or added onto `out`; rounded to bf16 where weights are."""
    row = tl.program_id(0)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros([BN, BK], tl.float32)
    power = tl.zeros([BK], tl.float32)
    if EARLY and K > BK:
        _await_input()
    for start in tl.static_range(0, K, BK):
        k = start + tl.arange(0, BK)
        fits = (n[:, None] < N) & (k[None, :] < K)
        tile = tl.load(weight + n[:, None] * K + k[None, :], mask=fits, other=0.0)
        if EARLY and K <= BK:
            _await_input()
        given = tl.load(x + row * K + k, mask=k < K, other=0.0).to(tl.float32)
        if NORM:
            power += given * given
            given = given * tl.load(scale + k, mask=k < K, other=0.0).to(tl.float32)
        total += tile.to(tl.float32) * given[None, :]
    found = tl.sum(total, axis=1)
    if NORM:
        found = found * tl.rsqrt(tl.sum(power, axis=0) / K + eps)
    if BIAS:
        found += tl.load(bias + n, mask=n < N, other=0.0).to(tl.float32)
    found = found.to(weight.dtype.element_ty).to(tl.float32)
    if ADD:
        found += tl.load(out + row * N + n, mask=n < N, other=0.0).to(tl.float32)
    tl.store(out + row * N + n, found.to(out.dtype.element_ty), mask=n < N)


@triton.jit
def gate_up(
    x, weight, bias, scale, out, eps,
    N: tl.constexpr, K: tl.constexpr, BIAS: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    """From x [M, K] → out [M, N] = silu(gate) · up, of weight [2N, K] · norm(x)."""
    row = tl.program_id(0)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    gates = tl.zeros([BN, BK], tl.float32)
    ups = tl.zeros([BN, BK], tl.float32)
    power = tl.zeros([BK], tl.float32)
    if EARLY and K > BK:
        _await_input()
    for start in tl.static_range(0, K, BK):
        k = start + tl.arange(0, BK)
        fits = (n[:, None] < N) & (k[None, :] < K)
        place = weight + n[:, None] * K + k[None, :]
        gate = tl.load(place, mask=fits, other=0.0)
        up = tl.load(place + N * K, mask=fits, other=0.0)
        if EARLY and K <= BK:
            _await_input()
        given = tl.load(x + row * K + k, mask=k < K, other=0.0).to(tl.float32)
        power += given * given
        given = given * tl.load(scale + k, mask=k < K, other=0.0).to(tl.float32)
        gates += gate.to(tl.float32) * given[None, :]
        ups += up.to(tl.float32) * given[None, :]
    factor = tl.rsqrt(tl.sum(power, axis=0) / K + eps)
    gate_sum = tl.sum(gates, axis=1) * factor
    up_sum = tl.sum(ups, axis=1) * factor
    if BIAS:
        gate_sum += tl.load(bias + n, mask=n < N, other=0.0).to(tl.float32)
        up_sum += tl.load(bias + N + n, mask=n < N, other=0.0).to(tl.float32)
    made = gate_sum / (1.0 + tl.exp(-gate_sum)) * up_sum
    tl.store(out + row * N + n, made.to(out.dtype.element_ty), mask=n < N)


@triton.jit
def decode_attention(
    qkv, cache, positions, cos, sin, norm_q, norm_k, out, position_stride, plane, columns, eps, factor,
    H: tl.constexpr, G: tl.constexpr, HALF: tl.constexpr, NORM: tl.constexpr, BC: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    """One query of one head over its slot: rotate q and k, store k and v, attend to all columns up to the position.

    `cache` [2, slots, G, columns, d] of one layer, `plane` elements from keys to values. The program of a key head's
    first query stores; the others hold the same key and value in registers, so no program waits for another.
    """
    head = tl.program_id(0)
    row = tl.program_id(1)
    group = head // (H // G)
    width = 2 * HALF
    i = tl.arange(0, HALF)
    whole = tl.arange(0, 2 * HALF)
    # earlier steps wrote the cache long before the previous kernel, so it need not be awaited
    position = tl.load(positions + row * position_stride)
    keys = cache + (row * G + group) * columns * width
    values = keys + plane
    c = tl.arange(0, BC).to(tl.int64)
    known = c < position
    at = c[:, None] * width + i[None, :]
    keys1 = tl.load(keys + at, mask=known[:, None], other=0.0)
    keys2 = tl.load(keys + HALF + at, mask=known[:, None], other=0.0)
    seen = tl.load(values + c[:, None] * width + whole[None, :], mask=known[:, None], other=0.0)
    if EARLY:
        _await_input()
    mine = qkv + row * (H + 2 * G) * width
    q1 = tl.load(mine + head * width + i).to(tl.float32)
    q2 = tl.load(mine + head * width + HALF + i).to(tl.float32)
    k1 = tl.load(mine + (H + group) * width + i).to(tl.float32)
    k2 = tl.load(mine + (H + group) * width + HALF + i).to(tl.float32)
    value = tl.load(mine + (H + G + group) * width + whole)
    if NORM:
        q_factor = tl.rsqrt((tl.sum(q1 * q1, 0) + tl.sum(q2 * q2, 0)) / width + eps)
        k_factor = tl.rsqrt((tl.sum(k1 * k1, 0) + tl.sum(k2 * k2, 0)) / width + eps)
        q1 = q1 * q_factor * tl.load(norm_q + i).to(tl.float32)
        q2 = q2 * q_factor * tl.load(norm_q + HALF + i).to(tl.float32)
        k1 = k1 * k_factor * tl.load(norm_k + i).to(tl.float32)
        k2 = k2 * k_factor * tl.load(norm_k + HALF + i).to(tl.float32)
    cos1 = tl.load(cos + position * width + i).to(tl.float32)
    cos2 = tl.load(cos + position * width + HALF + i).to(tl.float32)
    sin1 = tl.load(sin + position * width + i).to(tl.float32)  # negated already
    sin2 = tl.load(sin + position * width + HALF + i).to(tl.float32)
    turned1 = q1 * cos1 + q2 * sin1
    turned2 = q2 * cos2 + q1 * sin2
    key1 = (k1 * cos1 + k2 * sin1).to(cache.dtype.element_ty)
    key2 = (k2 * cos2 + k1 * sin2).to(cache.dtype.element_ty)
    if head % (H // G) == 0:
        tl.store(keys + position * width + i, key1)
        tl.store(keys + position * width + HALF + i, key2)
        tl.store(values + position * width + whole, value)
    largest = tl.full([1], 0.0, tl.float32)
    largest += (tl.sum(turned1 * key1.to(tl.float32), 0) + tl.sum(turned2 * key2.to(tl.float32), 0)) * factor
    weights = tl.full([1], 1.0, tl.float32)
    read = value.to(tl.float32)
    for start in range(0, tl.maximum(position, 1), BC):
        if start > 0:
            c = (start + tl.arange(0, BC)).to(tl.int64)
            known = c < position
            at = c[:, None] * width + i[None, :]
            keys1 = tl.load(keys + at, mask=known[:, None], other=0.0)
            keys2 = tl.load(keys + HALF + at, mask=known[:, None], other=0.0)
            seen = tl.load(values + c[:, None] * width + whole[None, :], mask=known[:, None], other=0.0)
        scores = tl.sum(keys1.to(tl.float32) * turned1[None, :], 1) + tl.sum(
            keys2.to(tl.float32) * turned2[None, :], 1
        )
        scores = tl.where(known, scores * factor, -float("inf"))
        higher = tl.maximum(largest, tl.max(scores, 0))
        shrink = tl.exp(largest - higher)
        powers = tl.exp(scores - higher)
        weights = weights * shrink + tl.sum(powers, 0)
        read = read * shrink + tl.sum(powers[:, None] * seen.to(tl.float32), 0)
        largest = higher
    tl.store(out + (row * H + head) * width + whole, (read / weights).to(out.dtype.element_ty))


@triton.jit
def grouped_attention(
    qkv, cache, positions, cos, sin, norm_q, norm_k, out, position_stride, plane, columns, eps, factor,
    H: tl.constexpr, G: tl.constexpr, WIDTH: tl.constexpr, NORM: tl.constexpr, BQ: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """As `decode_attention`, with one program for all queries of a key head, so that a column is read once: for batches.

    BQ is the number of these queries, rounded up to what a matrix product needs.
    """
    group = tl.program_id(0)
    row = tl.program_id(1).to(tl.int64)
    i = tl.arange(0, WIDTH)
    partner = (i + WIDTH // 2) % WIDTH  # rotation: x · cos + x[partner] · sin, with the first half of sin negated
    position = tl.load(positions + row * position_stride)
    keys = cache + (row * G + group) * columns * WIDTH
    values = keys + plane
    turn1 = tl.load(cos + position * WIDTH + i).to(tl.float32)
    turn2 = tl.load(sin + position * WIDTH + i).to(tl.float32)
    mine = qkv + row * (H + 2 * G) * WIDTH
    key = tl.load(mine + (H + group) * WIDTH + i).to(tl.float32)
    key_partner = tl.load(mine + (H + group) * WIDTH + partner).to(tl.float32)
    q = tl.arange(0, BQ)
    real = (q < H // G)[:, None]
    heads = (group * (H // G) + q)[:, None] * WIDTH
    query = tl.load(mine + heads + i[None, :], mask=real, other=0.0).to(tl.float32)
    query_partner = tl.load(mine + heads + partner[None, :], mask=real, other=0.0).to(tl.float32)
    if NORM:
        k_factor = tl.rsqrt(tl.sum(key * key, 0) / WIDTH + eps)
        key = key * k_factor * tl.load(norm_k + i).to(tl.float32)
        key_partner = key_partner * k_factor * tl.load(norm_k + partner).to(tl.float32)
        q_factor = tl.rsqrt(tl.sum(query * query, 1) / WIDTH + eps)[:, None]
        query = query * q_factor * tl.load(norm_q + i).to(tl.float32)[None, :]
        query_partner = query_partner * q_factor * tl.load(norm_q + partner).to(tl.float32)[None, :]
    key = (key * turn1 + key_partner * turn2).to(cache.dtype.element_ty)
    query = (query * turn1[None, :] + query_partner * turn2[None, :]).to(cache.dtype.element_ty)
    value = tl.load(mine + (H + G + group) * WIDTH + i)
    tl.store(keys + position * WIDTH + i, key)
    tl.store(values + position * WIDTH + i, value)
    # the new column comes from registers, the earlier ones from the cache
    largest = tl.sum(query.to(tl.float32) * key.to(tl.float32)[None, :], 1) * factor
    weights = tl.full([BQ], 1.0, tl.float32)
    read = tl.zeros([BQ, WIDTH], tl.float32) + value.to(tl.float32)[None, :]
    for start in range(0, position, BC):
        c = start + tl.arange(0, BC).to(tl.int64)
        known = c < position
        seen_keys = tl.load(keys + c[None, :] * WIDTH + i[:, None], mask=known[None, :], other=0.0)
        scores = tl.dot(query, seen_keys, input_precision="ieee") * factor
        scores = tl.where(known[None, :], scores, -float("inf"))
        higher = tl.maximum(largest, tl.max(scores, 1))
        shrink = tl.exp(largest - higher)
        powers = tl.exp(scores - higher[:, None])
        weights = weights * shrink + tl.sum(powers, 1)
        seen = tl.load(values + c[:, None] * WIDTH + i[None, :], mask=known[:, None], other=0.0)
        read = read * shrink[:, None] + tl.dot(powers.to(seen.dtype), seen, input_precision="ieee")
        largest = higher
    made = (read / weights[:, None]).to(out.dtype.element_ty)
    tl.store(out + row * H * WIDTH + heads + i[None, :], made, mask=real)


@triton.jit
def rotate_and_store(
    qkv, cos, sin, norm_q, norm_k, cache, slots, plane, columns, length, eps,
    H: tl.constexpr, G: tl.constexpr, HALF: tl.constexpr, NORM: tl.constexpr, BH: tl.constexpr, BG: tl.constexpr,
):  # fmt: skip
    """One token of prompts' q|k|v [T, (H + 2G)·d]: rotate q and k in place, store k and v in its slot of one layer's cache.

    Token t is column t % length of row t // length. `cache` [2, slots, G, columns, d], `plane` elements from keys to values.
    """
    token = tl.program_id(0).to(tl.int64)
    width = 2 * HALF
    column = token % length
    slot = tl.load(slots + token // length).to(tl.int64)
    i = tl.arange(0, HALF)
    h = tl.arange(0, BH)
    mine = qkv + token * (H + 2 * G) * width
    at = mine + h[:, None] * width + i[None, :]
    real = h[:, None] < H + G
    first = tl.load(at, mask=real, other=0.0).to(tl.float32)
    second = tl.load(at + HALF, mask=real, other=0.0).to(tl.float32)
    if NORM:
        factor = tl.rsqrt((tl.sum(first * first, 1) + tl.sum(second * second, 1)) / width + eps)[:, None]
        query = h[:, None] < H
        scale1 = tl.where(
            query, tl.load(norm_q + i)[None, :].to(tl.float32), tl.load(norm_k + i)[None, :].to(tl.float32)
        )
        scale2 = tl.where(
            query,
            tl.load(norm_q + HALF + i)[None, :].to(tl.float32),
            tl.load(norm_k + HALF + i)[None, :].to(tl.float32),
        )
        first = first * factor * scale1
        second = second * factor * scale2
    cos1 = tl.load(cos + column * width + i).to(tl.float32)[None, :]
    cos2 = tl.load(cos + column * width + HALF + i).to(tl.float32)[None, :]
    sin1 = tl.load(sin + column * width + i).to(tl.float32)[None, :]  # negated already
    sin2 = tl.load(sin + column * width + HALF + i).to(tl.float32)[None, :]
    turned1 = (first * cos1 + second * sin1).to(qkv.dtype.element_ty)
    turned2 = (second * cos2 + first * sin2).to(qkv.dtype.element_ty)
    tl.store(at, turned1, mask=real)
    tl.store(at + HALF, turned2, mask=real)
    key = (h[:, None] >= H) & real
    place = cache + ((slot * G + h[:, None] - H) * columns + column) * width + i[None, :]
    tl.store(place, turned1, mask=key)
    tl.store(place + HALF, turned2, mask=key)
    g = tl.arange(0, BG)
    whole = tl.arange(0, 2 * HALF)
    value = tl.load(mine + (H + G + g[:, None]) * width + whole[None, :], mask=g[:, None] < G, other=0.0)
    home = cache + plane + ((slot * G + g[:, None]) * columns + column) * width + whole[None, :]
    tl.store(home, value, mask=g[:, None] < G)


@triton.jit
def silu_mul(both, out, size, BI: tl.constexpr):
    """One row of gate|up [T, 2·size] → SiLU(gate) · up [T, size]."""
    token = tl.program_id(0).to(tl.int64)
    i = tl.program_id(1) * BI + tl.arange(0, BI)
    mine = both + token * 2 * size + i
    gates = tl.load(mine, mask=i < size, other=0.0).to(tl.float32)
    ups = tl.load(mine + size, mask=i < size, other=0.0).to(tl.float32)
    tl.store(out + token * size + i, (gates / (1.0 + tl.exp(-gates)) * ups).to(out.dtype.element_ty), mask=i < size)
