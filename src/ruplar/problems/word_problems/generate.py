"""Seed and count → word problems with chains that re-execute to their answers, the same ones on every machine.

Problem i under seed s depends on (s, i, families, steps, split) only, so a large set can be generated in shards: process 3 of 8
calls `generate(1000, seed, start=3000)`.
"""

import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from random import Random

from ruplar.errors import UserError, unknown
from ruplar.io import atomic
from ruplar.problems.seeding import Redraw, Split, mix, part_of, pick
from ruplar.problems.word_problems.families import FAMILIES, TRAIN_FAMILIES, Family
from ruplar.problems.word_problems.story import Story
from ruplar.types import Example

STEP_WEIGHTS = {1: 0.08, 2: 0.22, 3: 0.30, 4: 0.22, 5: 0.11, 6: 0.07}
"""How often a problem has this many steps: 3.3 on average, as in GSM8K."""
GROUP_WEIGHTS = {"short": {1: 0.6, 2: 0.4}, "situations": {1: 0.35, 2: 0.4, 3: 0.15, 4: 0.1}}
"""The same when all families are of one group: SVAMP mostly has one step, MultiArith two, GSM8K more."""


def generate(
    count: int,
    seed: int,
    *,
    families: Sequence[str] | None = None,
    steps: tuple[int, int] = (1, 6),
    start: int = 0,
    split: Split | None = None,
) -> Iterator[Example]:
    """Write `count` problems, from the `start`-th on."""
    chosen = tuple(TRAIN_FAMILIES if families is None else families)
    table = _table(chosen, (steps[0], steps[1]))
    return (_problem(seed, index, table, split) for index in range(start, start + count))


Rows = tuple[tuple[float, int, tuple[Family, ...]], ...]
Table = tuple[int, Rows]


@cache
def _table(chosen: tuple[str, ...], bounds: tuple[int, int]) -> Table:
    """A salt, and (cumulative share, steps, families able to write them) for each number of steps that can be drawn.

    Because of the salt, two sets of families under one seed do not use the same numbers in other words.
    """
    wrong = [unknown("family", name, FAMILIES) for name in chosen if name not in FAMILIES]
    if wrong:
        raise UserError(*wrong, where="families")
    groups = {FAMILIES[c].group for c in chosen}
    weights = GROUP_WEIGHTS.get(groups.pop(), STEP_WEIGHTS) if len(groups) == 1 else STEP_WEIGHTS
    able = {
        n: tuple(FAMILIES[c] for c in chosen if FAMILIES[c].steps[0] <= n <= FAMILIES[c].steps[1])
        for n in weights
        if bounds[0] <= n <= bounds[1]
    }
    able = {n: some for n, some in able.items() if some}
    if not able:
        reach = (
            ", ".join(f"{c} {FAMILIES[c].steps[0]}-{FAMILIES[c].steps[1]}" for c in chosen) or "no family was named"
        )
        raise UserError(f"steps: no family can write {bounds[0]} to {bounds[1]} steps. They write: {reach}.")
    total = sum(weights[n] for n in able)
    rows, share = [], 0.0
    for n, some in able.items():
        share += weights[n] / total
        rows.append((share, n, some))
    return zlib.crc32(repr((chosen, bounds)).encode()), tuple(rows)


def _problem(seed: int, index: int, table: Table, split: Split | None) -> Example:
    salt, rows = table
    rng = Random(mix(seed ^ salt, index))
    while True:
        question, steps = _draw(rng, rows)
        if split is None or part_of(question) == split:
            break
    chain = " ".join(f"<<{s}>>" for s in steps)
    answer = steps[-1].rpartition("=")[2]
    return Example(question, steps, answer, f"word-problems:{seed}:{index}", chain)


def _draw(rng: Random, rows: Rows) -> tuple[str, tuple[str, ...]]:
    draw = rng.random()
    goal, able = next(((n, some) for share, n, some in rows if draw < share), rows[-1][1:])
    family = pick(rng, able)
    for _ in range(1000):
        story = Story(rng, goal)
        try:
            family.read()(story)
        except Redraw:
            continue
        if len(story.steps) == goal:
            return " ".join(story.text), tuple(story.steps)
    raise RuntimeError(f"family '{family.name}' found no problem of {goal} steps in 1000 draws")


def write_jsonl(path: str | Path, examples: Iterable[Example]) -> int:
    """Write examples as one JSON object per line (`problem`, `solution`, `answer`) and return their number.

    A file is written atomically, so an interrupted run leaves no shorter one; a pipe or a device is written directly.
    """
    path, count = Path(path), 0
    with path.open("wb") if path.exists() and not path.is_file() else atomic(path) as out:
        for example in examples:
            row = {"problem": example.question, "solution": example.chain, "answer": example.answer}
            # a lone surrogate has no UTF-8 form; Python's escape for it is also the one of JSON
            out.write(f"{json.dumps(row, ensure_ascii=False)}\n".encode(errors="backslashreplace"))
            count += 1
    return count
