"""Statements of a template → compiled code: `n = count(2, 60)`, `k, m = groups()`, `require(n < m)`.

Statements are Python assignments and expressions. They may use the values of the template, the methods of `Story` (and of
`Scene`, where there is one) by name, the lists of `words.yaml`, and a few functions. In `solve` every operation is one step of the
chain: `total - k * m` becomes `story.sub(total, story.mul(k, m))`.
"""

import ast
from collections.abc import Iterable
from functools import cache
from types import CodeType
from typing import Any, NamedTuple

from ruplar.problems.word_problems.scenes import SCENE_FUNCTIONS
from ruplar.problems.word_problems.story import LARGEST, Redraw, Story
from ruplar.problems.word_problems.themes import compare
from ruplar.problems.word_problems.words import WORDS, listing

_STORY = {name for name in dir(Story) if not name.startswith("_")} - {"rng", "text", "words", "say", "distract"}
"""Attributes of the story that statements use by name: all but those that write the text."""
_OPERATIONS = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div"}


def require(condition: object) -> None:
    """Draw the problem again unless the condition holds."""
    if not condition:
        raise Redraw


@cache
def shapes(
    goal: int, tails: tuple[int, ...], most_products: int = 3, most_singles: int = 2
) -> tuple[tuple[int, int, int], ...]:
    """All (products, singles, steps of the closing) whose steps add up to the goal, for problems that add up several lines.

    A product line ("3 pens for $4 each") takes one step, a single one ("a hat for $12") none, adding up n lines n-1 steps.
    `tails` are the possible numbers of steps of the closing. There are never more than 3 lines in total.
    """
    return tuple(
        (products, singles, tail)
        for products in range(most_products + 1)
        for singles in range(most_singles + 1)
        for tail in tails
        if 1 <= products + singles <= 3 and products + products + singles - 1 + tail == goal
    )


BUILTINS: dict[str, Any] = {
    **WORDS,
    **{"min": min, "max": max, "len": len, "sum": sum, "set": set, "range": range, "zip": zip, "str": str},
    **{"LARGEST": LARGEST, "require": require, "shapes": shapes, "listing": listing, "compare": compare},
}
"""Name → value: what statements may use in every template, besides the story and its values."""


class Block(NamedTuple):
    """Compiled statements, None if there are none, and the names they assign."""

    code: CodeType | None
    names: tuple[str, ...]


def compile_block(lines: Iterable[str], where: str, *, steps: bool = False) -> Block:
    """Statements → one block to be executed with the values as its globals."""
    tree = ast.Module([one for line in lines for one in ast.parse(str(line), where).body], [])
    names = dict.fromkeys(name for statement in tree.body for name in _assigned(statement))
    tree = ast.fix_missing_locations(_Rewrite(steps).visit(tree))
    return Block(compile(tree, where, "exec") if tree.body else None, tuple(names))


def compile_condition(text: object, where: str) -> CodeType:
    """An expression → code to be evaluated with the values as its globals."""
    tree = _Rewrite(False).visit(ast.parse(str(text), where, "eval"))
    return compile(ast.fix_missing_locations(tree), where, "eval")


def _assigned(statement: ast.stmt) -> list[str]:
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return [node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)]


class _Rewrite(ast.NodeTransformer):
    """`count()` → `story.count()`, `verb()` → `scene.verb()`; with `steps` also `a + b` → `story.add(a, b)`."""

    def __init__(self, steps: bool):
        self.steps = steps

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """Find the name in the story or the scene."""
        owner = "story" if node.id in _STORY else "scene" if node.id in SCENE_FUNCTIONS else None
        return node if owner is None else ast.Attribute(ast.Name(owner, ast.Load()), node.id, node.ctx)

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        """Turn an operation, and those inside it, into steps."""
        self.generic_visit(node)
        if not self.steps:
            return node
        step = ast.Attribute(ast.Name("story", ast.Load()), _OPERATIONS[type(node.op)], ast.Load())
        return ast.Call(step, [node.left, node.right], [])
