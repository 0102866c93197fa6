"""Seed and count → deductions over small graphs of made-up concepts, as in ProsQA: the training data of the logic domain.

A problem lists facts in any order (`Every terpus is a brimpus.`), most of which lead nowhere, and asks which of two concepts a person
is; only one follows. Problem i under seed s depends on (s, i, steps, split) only, and is the same on every machine. Training,
validation and test share no graph (with its two options marked), whatever words it has, and no conclusion: if `Tom is a lempus`
is an answer in the test split, it is not an option of any training problem, neither the true one nor the wrong one.
"""

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from random import Random

from ruplar.domains._facts import Fact
from ruplar.errors import UserError
from ruplar.problems.data_files import load
from ruplar.problems.logic_graphs import Graph, draw, fingerprint
from ruplar.problems.seeding import Split, mix, part_of, pick
from ruplar.types import Example

REVISION = 2
"""Raise it when the problems of a seed change. 2: both options, and both people, are drawn in the same way."""
STEP_WEIGHTS = {1: 0.1, 2: 0.25, 3: 0.3, 4: 0.2, 5: 0.15}
"""How often a chain has this many steps; ProsQA's have 3 to 6, and two and a half times as many facts."""
_SALT = 0x106C
Draw = Callable[[Random, int, int], Graph]
"""Random numbers, steps of the chain and steps to the other concept → a graph."""

_WORDS = load(Path(__file__).with_name("logic_words.yaml"))
NAMES: tuple[str, ...] = tuple(_WORDS["names"])
CONCEPTS: tuple[str, ...] = tuple(_WORDS["concepts"])


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
    """Yield `count` problems, starting with number `start`."""
    able = {n: share for n, share in STEP_WEIGHTS.items() if steps[0] <= n <= steps[1]}
    if not able:
        raise UserError(f"steps: logic problems have 1 to 5 steps, not {steps[0]} to {steps[1]}.")
    numbers = range(start, start + count)
    return (_problem(Random(mix(seed ^ salt, n)), draw, able, split, f"{name}:{seed}:{n}") for n in numbers)


def _problem(rng: Random, draw: Draw, able: dict[int, float], split: Split | None, source: str) -> Example:
    while True:
        # both lengths from one distribution: a shorter path must not hint at the answer
        count, others = rng.choices(list(able), list(able.values()), k=2)
        graph = draw(rng, count, others)
        if split is not None and part_of(fingerprint(graph)) != split:
            continue
        words = _words(rng, graph, split)
        answer = f"{Fact(words[0], words[graph.path[-1]], every=False)}."
        return _write(rng, graph, words, answer, source)


@cache
def conclusions(split: Split | None) -> tuple[tuple[str, str, tuple[str, ...]], ...]:
    """The conclusions of a split: (name, concept, the other concepts that are conclusions about this name, at least one)."""
    found = []
    for name in NAMES:
        own = [c for c in CONCEPTS if split is None or part_of(f"{Fact(name, c, every=False)}.") == split]
        found += [(name, concept, tuple(c for c in own if c != concept)) for concept in own if len(own) > 1]
    return tuple(found)


def _words(rng: Random, graph: Graph, split: Split | None) -> list[str]:
    """A word for each node: a name for people, a concept for the others.

    The conclusion belongs to the split, and so does the wrong option. If the wrong one were drawn from all, most wrong options of a
    test would be conclusions of the training set, and a model that memorized those would score below chance.
    """
    pairs = conclusions(split)
    who, target, wrong = pick(rng, pairs)
    fixed = {graph.people[0]: who, graph.path[-1]: target, graph.other: pick(rng, wrong)}
    names = rng.sample([name for name in NAMES if name != who], len(graph.people) - 1)
    concepts = rng.sample([c for c in CONCEPTS if c not in fixed.values()], graph.size - len(graph.people) - 2)
    return [fixed.get(n) or (names if n in graph.people else concepts).pop() for n in range(graph.size)]


def _write(rng: Random, graph: Graph, words: list[str], answer: str, source: str) -> Example:
    """The graph in words: facts in any order, then the question; the chain in order."""

    def fact(subject: int, concept: int) -> str:
        return f"{Fact(words[subject], words[concept], every=subject not in graph.people)}."

    facts = [fact(*edge) for edge in graph.edges]
    rng.shuffle(facts)
    options = [words[graph.path[-1]], words[graph.other]]
    rng.shuffle(options)
    question = f"{' '.join(facts)} Is {words[0]} a {options[0]} or {options[1]}?"
    steps = tuple(fact(a, b) for a, b in zip(graph.path, graph.path[1:], strict=False))
    return Example(question, steps, answer, source, " ".join(f"<<{s}>>" for s in steps))
