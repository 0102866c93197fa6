"""Goal → how a sum of lines can reach it: shared by the families that add up several lines and then do something with the sum."""

from __future__ import annotations

from functools import cache


@cache
def shapes(
    goal: int, tails: tuple[int, ...], most_products: int = 3, most_singles: int = 2
) -> tuple[tuple[int, int, int], ...]:
    """All (products, singles, steps of the tail) whose steps add up to the goal.

    A product line ("3 pens for $4 each") costs a step, a single one ("a hat for $12") none, adding up n lines n-1 steps.

    Args:
        goal: Steps in all.
        tails: Steps the closing may take.
        most_products: Most product lines.
        most_singles: Most single lines; lines are never more than 3 in all.
    """
    return tuple(
        (products, singles, tail)
        for products in range(most_products + 1)
        for singles in range(most_singles + 1)
        for tail in tails
        if 1 <= products + singles <= 3 and products + products + singles - 1 + tail == goal
    )


def listing(lines: list[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return lines[0] if len(lines) == 1 else f"{', '.join(lines[:-1])} and {lines[-1]}"
