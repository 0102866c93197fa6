"""Seed and count → logic problems whose chains follow the facts they tell, the same ones on every machine.

Problem i under seed s is a function of (s, i, steps, split) alone. Training, validation and test have no graph in common, its two
options marked, whatever words it is told in, and no conclusion: where `Tom is a lempus` is an answer of the test, it is none of the training, neither as the
true option nor as the wrong one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from random import Random
from typing import Any

from ruplar import plugins
from ruplar.domains._facts import Fact
from ruplar.domains.base import faults
from ruplar.errors import UserError
from ruplar.problems.logic_problems.shape import Shape, draw, fingerprint
from ruplar.problems.seeding import Split, mix, part_of
from ruplar.types import Example

DOMAIN = "logic"
STEP_WEIGHTS = {1: 0.1, 2: 0.25, 3: 0.3, 4: 0.2, 5: 0.15}
"""How often a chain has this many steps; ProsQA's have 3 to 6, and two and a half times as many facts."""
_SALT = 0x106C
Draw = Callable[[Random, int, int], Shape]
"""Random numbers, steps of the chain and steps to the other concept → a graph."""

NAMES = (
    *("Alex", "Bob", "Carol", "Davis", "Eva", "Fae", "Gabriel", "Jack", "Max", "Oliver", "Polly", "Rex", "Sally"),
    *("Sam", "Stella", "Tom", "Wren"),
)
CONCEPTS = (
    *("bompus", "boompus", "brimpus", "chorpus", "dumpus", "felpus", "fompus", "gerpus", "gorpus", "grimpus"),
    *("gwompus", "hilpus", "impus", "jelpus", "jompus", "kerpus", "lempus", "lorpus", "numpus", "quimpus"),
    *("rempus", "rompus", "rorpus", "scrompus", "shumpus", "sterpus", "storpus", "terpus", "timpus", "tumpus"),
    *("vumpus", "worpus", "wumpus", "yerpus", "yimpus", "yumpus", "zhorpus", "zumpus"),
)
"""ProsQA's own words, so that a model of these problems can be asked ProsQA's questions."""


def generate(
    count: int,
    seed: int,
    *,
    steps: tuple[int, int] = (1, 5),
    start: int = 0,
    split: Split | None = None,
    draw: Draw = draw,
    name: str = "logic-problems",
    salt: int = _SALT,
) -> Iterator[Example]:
    """Write `count` problems, from the `start`-th on.

    Args:
        count: How many.
        seed: Which sequence of problems; any whole number.
        steps: Fewest and most steps, both included; chains have 1 to 5.
        start: Index of the first problem.
        split: Only problems whose graph and conclusion belong to this part; any when None.
        draw: How a graph is drawn.
        name: What the source is called.
        salt: What makes its problems others than those of another source with the same seed.

    Yields:
        Examples with source `NAME:SEED:INDEX`.

    Raises:
        UserError: No problem has so many steps.
    """
    able = {n: share for n, share in STEP_WEIGHTS.items() if steps[0] <= n <= steps[1]}
    if not able:
        raise UserError(f"steps: logic problems have 1 to 5 steps, not {steps[0]} to {steps[1]}.")
    numbers = range(start, start + count)
    return (_problem(Random(mix(seed ^ salt, n)), draw, able, split, f"{name}:{seed}:{n}") for n in numbers)


def verify(example: Example) -> str | None:
    """What is wrong with a generated problem; None when nothing is: its chain is followed along the facts it tells."""
    domain = _domain()
    if not example.steps:
        return "it has no step"
    if unread := [s for s in example.steps if domain.unchecked(s)]:
        return f"step {unread[0]!r} is no fact"
    return next(iter(faults(domain, example)), None)


def _problem(rng: Random, draw: Draw, able: dict[int, float], split: Split | None, source: str) -> Example:
    while True:
        # both lengths alike, or the shorter way to a name would tell the answer
        count, others = rng.choices(list(able), list(able.values()), k=2)
        shape = draw(rng, count, others)
        if split is not None and part_of(fingerprint(shape)) != split:
            continue
        words = _words(rng, shape, split)
        answer = f"{Fact(words[0], words[shape.path[-1]], every=False)}."
        return _told(rng, shape, words, answer, source)


@cache
def conclusions(split: Split | None) -> tuple[tuple[str, str, tuple[str, ...]], ...]:
    """Who may be concluded to be what in this part, and what else they may: the wrong options, at least one."""
    found = []
    for name in NAMES:
        own = [c for c in CONCEPTS if split is None or part_of(f"{Fact(name, c, every=False)}.") == split]
        found += [(name, concept, tuple(c for c in own if c != concept)) for concept in own if len(own) > 1]
    return tuple(found)


def _words(rng: Random, shape: Shape, split: Split | None) -> list[str]:
    """A word for each node: a name for people, a concept for the others.

    The conclusion is one of the part's own, and so is the wrong one: were it drawn from all, most wrong options of a test would be
    conclusions of the training, and whoever knows those by heart would be wrong more often than by guessing.
    """
    pairs = conclusions(split)
    who, target, wrong = pairs[int(rng.random() * len(pairs))]
    fixed = {shape.people[0]: who, shape.path[-1]: target, shape.other: wrong[int(rng.random() * len(wrong))]}
    names = rng.sample([name for name in NAMES if name != who], len(shape.people) - 1)
    concepts = rng.sample([c for c in CONCEPTS if c not in fixed.values()], shape.size - len(shape.people) - 2)
    return [fixed.get(n) or (names if n in shape.people else concepts).pop() for n in range(shape.size)]


def _told(rng: Random, shape: Shape, words: list[str], answer: str, source: str) -> Example:
    """The graph in words: facts in any order, then the question; the chain in its order."""

    def fact(subject: int, concept: int) -> str:
        return f"{Fact(words[subject], words[concept], every=subject not in shape.people)}."

    facts = [fact(*edge) for edge in shape.edges]
    rng.shuffle(facts)
    options = [words[shape.path[-1]], words[shape.other]]
    rng.shuffle(options)
    question = f"{' '.join(facts)} Is {words[0]} a {options[0]} or {options[1]}?"
    steps = tuple(fact(a, b) for a, b in zip(shape.path, shape.path[1:], strict=False))
    return Example(question, steps, answer, source, " ".join(f"<<{s}>>" for s in steps))


@cache
def _domain() -> Any:
    return plugins.make("domains", DOMAIN)
