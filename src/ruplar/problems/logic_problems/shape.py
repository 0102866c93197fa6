"""Random numbers → the graph of a problem without its words: who is asked about, what follows, what does not.

Two people have a side each, drawn alike; node 0, who is asked about, has the one as somebody else the other:

    0 → a → b → the target          somebody → x → the other concept
        └ dead end                      └ dead end ← a        one side's facts lead to the other's dead ends
    a third → y → b, x, ..: what follows from one follows from others

Exchange the two sides and you have a problem that is just as likely, and whose answer is the other concept. So nothing that leaves out
who is asked about can tell the answer: no count of facts, no length, no place; only following facts from there can.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from itertools import pairwise
from random import Random

Edge = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Shape:
    """A graph without words.

    Attributes:
        people: Nodes that are somebody, the one asked about first.
        size: Number of nodes, people included.
        edges: Facts, from subject to concept.
        path: Nodes of the chain, from the one asked about to the target.
        other: The concept that does not follow.
    """

    people: tuple[int, ...]
    size: int
    edges: tuple[Edge, ...]
    path: tuple[int, ...]
    other: int


def draw(rng: Random, steps: int, others: int) -> Shape:
    """A graph whose chain has so many steps, and so many lead somebody else to the other concept."""
    edges: list[Edge] = []
    grown = [-1]  # the newest node

    def grow(*parents: int) -> int:
        grown[0] += 1
        edges.extend((parent, grown[0]) for parent in parents)
        return grown[0]

    def side(length: int) -> tuple[list[int], list[int]]:
        """Somebody, and a path of new nodes from there with dead ends: the path, the dead ends."""
        path, ends = [grow()], []
        for _ in range(length):
            path.append(grow(path[-1]))
        for node in path[:-1]:
            if rng.random() < 0.6:
                ends.append(grow(node))
                if rng.random() < 0.35:
                    ends.append(grow(ends[-1]))
        return path, ends

    (path, ends), (theirs, their_ends) = side(steps), side(others)
    for source, dead in ((path, their_ends), (theirs, ends)):
        for node in source[1:-1]:
            if dead and rng.random() < 0.25:
                edges.append((node, _one(rng, dead)))
    third = grow()
    met = grow(third)
    reached = [*path[1:], *ends, *theirs[1:], *their_ends]
    edges += [(met, _one(rng, reached)) for _ in range(3) if rng.random() < 0.5]
    return Shape((path[0], theirs[0], third), grown[0] + 1, tuple(dict.fromkeys(edges)), tuple(path), theirs[-1])


def draw_ways(rng: Random, steps: int, others: int) -> Shape:
    """The same without forks: everybody and everything is one thing only, so whoever follows facts never has to choose.

        0 → a → b → the target → c      somebody → x → the other concept        both sides drawn alike
                ↑                                  ↑
            d → e       f, a third → y             g                            what leads into them does not follow

    Where a way goes on behind the option, only the question says where to stop.
    """
    edges: list[Edge] = []
    grown = [-1]  # the newest node

    def new() -> int:
        grown[0] += 1
        return grown[0]

    def side(length: int) -> tuple[list[int], list[int]]:
        """Somebody, and a way of new nodes from there, with others that lead into it: the way, the others."""
        path = [new() for _ in range(length + 1)]
        edges.extend(pairwise(path))
        into = []
        for node in path[1:]:
            for _ in range(2):
                if rng.random() >= 0.4:
                    break
                into.append(new())
                edges.append((into[-1], node))
                node = into[-1]
        if rng.random() < 0.5:
            edges.append((path[-1], new()))
        return path, into

    (path, into), (theirs, into_theirs) = side(steps), side(others)
    third, met = new(), new()
    edges += [(third, met), (met, _one(rng, [*path[1:], *into, *theirs[1:], *into_theirs]))]
    return Shape((path[0], theirs[0], third), grown[0] + 1, tuple(edges), tuple(path), theirs[-1])


def _one(rng: Random, nodes: list[int]) -> int:
    return nodes[int(rng.random() * len(nodes))]


def fingerprint(shape: Shape) -> str:
    """What two graphs have in common when they differ only in the numbers of their nodes: equal graphs have equal prints.

    Each node is told by its kind, then again and again by what leads to it and from it (Weisfeiler and Leman); different graphs may
    share a print, which costs a problem and never lets one graph into two parts. Who is asked about and which concept is true are
    left out: were a graph trained on for one of its people and tested for the other, whoever learnt the graph's answer by heart
    would be wrong more often than by guessing.
    """
    options = (shape.path[-1], shape.other)
    colours = ["somebody" if n in shape.people else "option" if n in options else "concept" for n in range(shape.size)]
    into: list[list[int]] = [[] for _ in range(shape.size)]
    out: list[list[int]] = [[] for _ in range(shape.size)]
    for subject, concept in shape.edges:
        out[subject].append(concept)
        into[concept].append(subject)
    for _ in range(3):
        colours = [
            _short(repr((colours[n], sorted(colours[m] for m in into[n]), sorted(colours[m] for m in out[n]))))
            for n in range(shape.size)
        ]
    return _short(repr(sorted(colours)))


def _short(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
