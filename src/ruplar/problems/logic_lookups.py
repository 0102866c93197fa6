"""Seed and count → facts to look up in sequence, without options to guess: the first training stage for logic.

    Tom is a terpus. Every brimpus is a lempus. Eva is a gorpus. Every terpus is a brimpus. What is Eva? What is Tom?
    <<Eva is a gorpus.>> <<Tom is a terpus.>> <<Every terpus is a brimpus.>> <<Every brimpus is a lempus.>>   Tom is a lempus.

Several people each have a path; no two paths meet and none forks. Where two options are given, a model learns to guess one and to
write the chain backwards from there (docs/log.md); here only looking up helps. The answer is that of the last person. As with
`logic-problems`, training and test share no conclusion, and no graph with its first and last path. For training only: no
reported score is on these.
"""

from collections.abc import Iterator
from functools import cache
from itertools import islice, pairwise, product
from random import Random

from ruplar.domains._facts import Fact
from ruplar.errors import UserError
from ruplar.problems.logic_graphs import Graph, fingerprint
from ruplar.problems.logic_problems import CONCEPTS, conclusions
from ruplar.problems.seeding import Split, mix, part_of
from ruplar.types import Example

_SALT = 0x100C
_MOST_STEPS = 3
"""Maximum number of steps for one person."""
_PEOPLE = (1, 5)


def generate(
    count: int, seed: int, *, steps: tuple[int, int] = (1, _MOST_STEPS), start: int = 0, split: Split | None = None
) -> Iterator[Example]:
    """Write `count` problems, from the `start`-th on."""
    if not 1 <= steps[0] <= steps[1] or steps[0] > _MOST_STEPS:
        raise UserError(f"steps: lookups have 1 to {_MOST_STEPS} steps per person, not {steps[0]} to {steps[1]}.")
    bounds = (steps[0], min(steps[1], _MOST_STEPS))
    if split is not None and not _exists(bounds, split):
        raise UserError(
            f"steps: lookups with paths of {bounds[0]} to {bounds[1]} steps have no graph in the split '{split}': there are few "
            f"such graphs, and each is in one split. Use other bounds, e.g. [1, {_MOST_STEPS}]."
        )
    return (_problem(seed, index, bounds, split) for index in range(start, start + count))


@cache
def _exists(bounds: tuple[int, int], split: Split) -> bool:
    one = range(bounds[0], bounds[1] + 1)
    paths = (lengths for people in range(_PEOPLE[0], _PEOPLE[1] + 1) for lengths in product(one, repeat=people))
    return any(part_of(fingerprint(_graph(list(lengths)))) == split for lengths in paths)


def _problem(seed: int, index: int, bounds: tuple[int, int], split: Split | None) -> Example:
    rng = Random(mix(seed ^ _SALT, index))
    while True:
        lengths = [rng.randint(*bounds) for _ in range(rng.randint(*_PEOPLE))]
        if split is None or part_of(fingerprint(_graph(lengths))) == split:
            break
    people, targets = _concluded(rng, len(lengths), split)
    between = iter(rng.sample([c for c in CONCEPTS if c not in targets], sum(lengths) - len(lengths)))
    paths = []
    for name, target, length in zip(people, targets, lengths, strict=True):
        own = [*islice(between, length - 1), target]
        facts = [Fact(name, own[0], every=False), *(Fact(a, b, every=True) for a, b in pairwise(own))]
        paths.append([f"{fact}." for fact in facts])
    steps = tuple(step for path in paths for step in path)
    facts_in_order = rng.sample(steps, len(steps))
    question = " ".join([*facts_in_order, *(f"What is {name}?" for name in people)])
    answer = f"{Fact(people[-1], targets[-1], every=False)}."
    chain = " ".join(f"<<{step}>>" for step in steps)
    return Example(question, steps, answer, f"logic-lookups:{seed}:{index}", chain)


def _concluded(rng: Random, count: int, split: Split | None) -> tuple[list[str], list[str]]:
    """Draw this many people and the conclusion about each: different conclusions of this split."""
    own = conclusions(split)
    while True:
        found = {name: concept for name, concept, _ in rng.sample(own, 4 * count)}
        people = list(found)[:count]
        targets = [found[name] for name in people]
        if len(people) == len(set(targets)) == count:
            return people, targets


def _graph(lengths: list[int]) -> Graph:
    """The graph of the paths, in the form of `logic-problems`."""
    edges, people, ends, size = [], [], [], 0
    for length in lengths:
        people.append(size)
        edges += [(node, node + 1) for node in range(size, size + length)]
        size += length + 1
        ends.append(size - 1)
    return Graph(tuple(people), size, tuple(edges), tuple(range(lengths[0] + 1)), ends[-1])
