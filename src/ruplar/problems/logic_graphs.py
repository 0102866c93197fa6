"""Random numbers → the graph of a logic problem, without its words: the subject, what follows and what does not.

Two people each have a side, drawn in the same way: node 0, the subject of the question, and another person:

    0 → a → b → the target          another → x → the other concept
        └ dead end                      └ dead end ← a        facts of one side lead to dead ends of the other
    a third → y → b, x, ..: what follows for one person follows for others

With the two sides exchanged it is a problem that is just as likely, and its answer is the other concept. So nothing that ignores
the subject predicts the answer: no count of facts, no length, no position; only following the facts does.
"""

import hashlib
from dataclasses import dataclass
from itertools import count, pairwise
from random import Random

from ruplar.problems.seeding import pick

Edge = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Graph:
    """A graph without words; edges are facts, from subject to concept.

    The first of `people` is the subject of the question, `path` leads to the target, `other` is the concept that does not follow.
    """

    people: tuple[int, ...]
    size: int
    edges: tuple[Edge, ...]
    path: tuple[int, ...]
    other: int


def draw(rng: Random, steps: int, others: int) -> Graph:
    """A graph whose chain has `steps` steps, and whose other person reaches the other concept in `others` steps."""
    edges: list[Edge] = []
    new = count().__next__

    def grow(*parents: int) -> int:
        node = new()
        edges.extend((parent, node) for parent in parents)
        return node

    def side(length: int) -> tuple[list[int], list[int]]:
        """A person and a path of new nodes with dead ends: the path, the dead ends."""
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
                edges.append((node, pick(rng, dead)))
    third = grow()
    met = grow(third)
    reached = [*path[1:], *ends, *theirs[1:], *their_ends]
    edges += [(met, pick(rng, reached)) for _ in range(3) if rng.random() < 0.5]
    return Graph((path[0], theirs[0], third), new(), tuple(dict.fromkeys(edges)), tuple(path), theirs[-1])


def draw_ways(rng: Random, steps: int, others: int) -> Graph:
    """A graph without forks: every person and every concept is one thing only, so following the facts needs no choice.

        0 → a → b → the target → c      another → x → the other concept         both sides are drawn in the same way
                ↑                                  ↑
            d → e       f, a third → y             g                            what leads into them does not follow

    Where a path continues after the option, only the question says where to stop.
    """
    edges: list[Edge] = []
    new = count().__next__

    def side(length: int) -> tuple[list[int], list[int]]:
        """A person and a path of new nodes, with others that lead into it: the path, the others."""
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
    edges += [(third, met), (met, pick(rng, [*path[1:], *into, *theirs[1:], *into_theirs]))]
    return Graph((path[0], theirs[0], third), new(), tuple(edges), tuple(path), theirs[-1])


def fingerprint(graph: Graph) -> str:
    """A hash that is equal for graphs that differ only in the numbering of their nodes (Weisfeiler and Leman).

    Different graphs may share a hash; that costs a problem, and never puts one graph into two splits. The subject and which option is
    true are left out: if a graph were in training for one of its people and in the test for the other, a model that
    memorized the graph's answer would score below chance.
    """
    options = (graph.path[-1], graph.other)
    colours = ["somebody" if n in graph.people else "option" if n in options else "concept" for n in range(graph.size)]
    into: list[list[int]] = [[] for _ in range(graph.size)]
    out: list[list[int]] = [[] for _ in range(graph.size)]
    for subject, concept in graph.edges:
        out[subject].append(concept)
        into[concept].append(subject)
    for _ in range(3):
        colours = [
            _short(repr((colours[n], sorted(colours[m] for m in into[n]), sorted(colours[m] for m in out[n]))))
            for n in range(graph.size)
        ]
    return _short(repr(sorted(colours)))


def _short(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
