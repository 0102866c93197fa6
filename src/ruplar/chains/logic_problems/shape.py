"""Random numbers → the graph of a problem without its words: who is asked about, what follows, what does not.

Node 0 is who is asked about. The facts that lead from there are a tree, so one chain alone reaches the target:

    0 → a → b → target          somebody else → x → y → the other concept
        └ dead end  └ dead end                └ also leads to a, b, ..: what follows from 0 follows from many

Nothing leads from node 0 to the other concept. Both concepts are ends of branches of like lengths, so neither can be told by where it
stands, only by following facts.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
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


def draw(rng: Random, steps: int) -> Shape:
    """A graph whose chain has so many steps."""
    edges: list[Edge] = []
    grown = [0]  # how many nodes there are, less one

    def grow(parent: int) -> int:
        grown[0] += 1
        edges.append((parent, grown[0]))
        return grown[0]

    def branch(start: int, length: int) -> list[int]:
        """A path of new nodes, with dead ends at its sides."""
        path = [start]
        for _ in range(length):
            path.append(grow(path[-1]))
        for node in path[:-1]:
            if rng.random() < 0.6:
                end = grow(node)
                if rng.random() < 0.35:
                    grow(end)
        return path

    path = branch(0, steps)
    ours = grown[0]
    grown[0] += 1
    someone = grown[0]
    theirs = branch(someone, max(2, steps + int(rng.random() * 3) - 1))
    # facts from their side to ours: what follows from 0 is not told by counting who leads there
    for node in range(someone, grown[0]):
        if node not in (someone, theirs[-1]) and rng.random() < 0.25:
            edges.append((node, 1 + int(rng.random() * ours)))
    return Shape((0, someone), grown[0] + 1, tuple(dict.fromkeys(edges)), tuple(path), theirs[-1])


def fingerprint(shape: Shape) -> str:
    """What two graphs have in common when they differ only in the numbers of their nodes: equal graphs have equal prints.

    Each node is told by its role, then again and again by what leads to it and from it (Weisfeiler and Leman); different graphs may
    share a print, which costs a problem and never lets one graph into two parts.
    """
    roles = {shape.people[0]: "who", shape.path[-1]: "target", shape.other: "other"}
    colours = [roles.get(n, "someone" if n in shape.people else "concept") for n in range(shape.size)]
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
