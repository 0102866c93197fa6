"""Template of a family file → problems: numbers are drawn, texts filled in, and the solution computed step by step.

A template is a tree of nodes. Each node may, in this order: make a scene (for situations), draw values, write a text, add the
steps of its solution, and continue with its children. In a family file a node has these fields:

    draw        Statements that draw or compute values: `n = count(2, 60)`, `k, m = groups()`, `total = k * m + n`,
                `require(n < m)`, `text = pick(texts)`. They call the methods of `Story` (and of `Scene`) by name.
    texts       Texts of which one is drawn, after `draw` unless a statement draws it. A text is a sentence or a list of them.
    text        The same where there is only one: nothing is drawn.
    questions, question    The question of a scene, drawn or given likewise.
    distractors, distractor, share    Sentences with an unneeded number; how often one is inserted before the question.
    unneeded    Scenes: the values that matter; a clause with another number is inserted as often as `share` says.
    spell       Numbers that the text sometimes spells out: `[k]`.
    solve       Statements whose every operation is one step: `total - k * m` adds the steps k*m and total-….
    do          Children that are run one after the other.
    while       The node is repeated as long as this holds: `while: left > 1`.
    cases       Children; the first one whose `if` holds is used: `if: left == 1 and chance(0.5)`.
    pick        Children of which one is drawn, `weight` times as often; only those with a fitting `steps`.
    scene       Which frames a scene is about, and how it is worded (`scenes.py`).

`skip()` in `draw` throws one random number away, so that a seed keeps giving the problems that it gave before an edit.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from types import CodeType
from typing import Any

from ruplar.errors import UserError, unknown
from ruplar.problems.data_files import check_fields, check_placeholders, frozen
from ruplar.problems.word_problems.scenes import SCENE_FUNCTIONS, SCENE_WORDS, Scene, read_frames
from ruplar.problems.word_problems.story import LARGEST, PERSON_WORDS, Redraw, Story
from ruplar.problems.word_problems.themes import compare
from ruplar.problems.word_problems.words import HOLDERS, WORDS, listing

_LISTS = ("texts", "questions", "distractors")
_FIELDS = (
    *("draw", "texts", "text", "questions", "question", "distractors", "distractor", "share", "unneeded", "spell"),
    *("solve", "do", "while", "cases", "pick", "scene", "if", "weight", "steps"),
)
_DRAWN = (
    *(
        "pick",
        "chance",
        "between",
        "amount",
        "some",
        "lots",
        "percent_for",
        "divisor_of",
        "factor_for",
        "count",
        "unlike",
    ),
    *("groups", "spell", "line", "person", "skip", "shuffled", "sample", "random"),
)
_STEPS = ("add", "sub", "mul", "div", "percent", "add_up")
_OPERATIONS = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div"}
_FUNCTIONS = (
    *_DRAWN,
    *_STEPS,
    "require",
    "compare",
    "shapes",
    "min",
    "max",
    "len",
    "sum",
    "set",
    "range",
    "zip",
    "str",
    "fill",
    "listing",
    "LARGEST",
)
SHORT_WORDS = ("things", "place", "worker", "one", "many", "put", "kind", "other", "day", "later")


@dataclass(frozen=True)
class Statement:
    """One compiled line: the names it assigns (none for a bare expression) and its code."""

    names: tuple[str, ...]
    code: CodeType

    def run(self, values: dict[str, Any]) -> None:
        """Evaluate it and assign the result."""
        result = eval(self.code, values)  # noqa: S307  (the package's own data files)
        if not self.names:
            return
        if len(self.names) == 1:
            values[self.names[0]] = result
            if self.names[0] == "text" and isinstance(result, dict):
                values.update(result)
        else:
            values.update(zip(self.names, result, strict=False))


@dataclass(frozen=True)
class Node:
    """One node of a template; the attributes are those of the YAML form, compiled."""

    scene: Mapping[str, Any] | None
    given: Mapping[str, Any]
    draw: tuple[Statement, ...]
    drawn: tuple[tuple[str, str], ...]
    writes: bool
    unneeded: tuple[str, ...] | None
    share: float
    spell: tuple[str, ...]
    solve: tuple[Statement, ...]
    loop: CodeType | None
    do: tuple[Node, ...]
    cases: tuple[tuple[CodeType | None, Node], ...]
    pick: tuple[tuple[int, int, Node], ...]
    names: tuple[str, ...]

    def run(self, story: Story, scene: Scene | None = None, **values: object) -> None:
        """Write the node and its children into the story.

        Args:
            story: The problem.
            scene: The scene of a parent node.
            **values: Values that the templates may use.

        Raises:
            Redraw: The numbers drawn do not fit.
        """
        if "require" not in story.words:
            story.words = _functions(story) | story.words
        words: dict[str, Any] = story.words
        words.update(values, left=story.left)
        while self.loop is None or eval(self.loop, words):  # noqa: S307
            self._once(story, scene)
            if self.loop is None:
                break

    def _once(self, story: Story, scene: Scene | None) -> None:
        words: dict[str, Any] = story.words
        if self.scene is not None:
            scene = Scene(story, **self.scene)
            words.update(scene.values())
        words.update(self.given)
        for statement in self.draw:
            statement.run(words)
        for name, among in self.drawn:
            words[name] = story.pick(words[among])
            if isinstance(words[name], dict):
                words.update(words[name])
        if self.writes:
            self._write(story, scene)
        for statement in self.solve:
            statement.run(words)
        words["left"] = story.left
        for child in (*self.do, *self._chosen(story)):
            child.run(story, scene)

    def _write(self, story: Story, scene: Scene | None) -> None:
        words: dict[str, Any] = story.words
        if scene is not None:
            distractor = words.get("distractor") or None
            if self.unneeded is not None:
                distractor = scene.distractor(*(words[name] for name in self.unneeded))
            clauses = [scene.clause(text, words) for text in words["text"]]
            scene.write(clauses, words["question"].format_map(words), distractor, self.share)
            return
        shown = {**words, **{name: story.spell(words[name]) for name in self.spell}} if self.spell else words
        text = words["text"]
        sentences = [text] if isinstance(text, str) else list(text)
        distractor = words.get("distractor")
        if distractor and len(sentences) > 1 and story.chance(self.share):
            sentences.insert(story.between(1, len(sentences) - 1), distractor)
        story.text.extend(sentence.format_map(shown) for sentence in sentences)

    def _chosen(self, story: Story) -> Iterator[Node]:
        """The child of `cases` or `pick` that is used, if there are any."""
        for condition, child in self.cases:
            if condition is None or eval(condition, story.words):  # noqa: S307
                yield child
                return
        if self.pick:
            yield story.pick([node for low, high, node in self.pick if low <= story.goal <= high])


def _functions(story: Story) -> dict[str, Any]:
    """Everything that statements may call or name."""
    found = {name: getattr(story, name) for name in (*_DRAWN, *_STEPS)}
    found |= {"goal": story.goal, "steps": story.steps, "compare": partial(compare, story)}
    return _CONSTANTS | found | {"fill": lambda text: text.format_map(story.words)}


def require(condition: object) -> None:
    """Draw the problem again unless the condition holds.

    Raises:
        Redraw: It does not.
    """
    if not condition:
        raise Redraw


@cache
def shapes(
    goal: int, tails: tuple[int, ...], most_products: int = 3, most_singles: int = 2
) -> tuple[tuple[int, int, int], ...]:
    """All (products, singles, steps of the closing) whose steps add up to the goal, for problems that add up several lines.

    A product line ("3 pens for $4 each") takes one step, a single one ("a hat for $12") none, adding up n lines n-1 steps.

    Args:
        goal: Steps in all.
        tails: Steps the closing may take.
        most_products: Most product lines.
        most_singles: Most single lines; there are never more than 3 lines in all.
    """
    return tuple(
        (products, singles, tail)
        for products in range(most_products + 1)
        for singles in range(most_singles + 1)
        for tail in tails
        if 1 <= products + singles <= 3 and products + products + singles - 1 + tail == goal
    )


_CONSTANTS: dict[str, Any] = {
    **WORDS,
    **{
        "__builtins__": {},
        "min": min,
        "max": max,
        "len": len,
        "sum": sum,
        "set": set,
        "range": range,
        "zip": zip,
        "str": str,
    },
    **{"LARGEST": LARGEST, "require": require, "listing": listing, "shapes": shapes},
}


def choose_short_words(story: Story) -> None:
    """Draw the words that most short problems use: `things`, `place`, `worker`, a holder, two kinds, two days."""
    holder = story.pick(HOLDERS)
    kinds = story.pick(WORDS["kinds"])
    days = story.rng.sample(WORDS["days"], 2)
    things, place, worker = (story.pick(WORDS[name]) for name in ("things", "places", "workers"))
    kind, other = reversed(kinds) if story.chance(0.5) else kinds
    story.words.update(zip(SHORT_WORDS, (things, place, worker, *holder, kind, other, *days), strict=True))


# --- reading ---
def read_template(value: object, where: str, known: Sequence[str] = ()) -> Node:
    """A node of a family file → the compiled node; `known` are the names that its texts and statements may use.

    Raises:
        UserError: A field, a name or a placeholder is unknown, or a statement is not one; names the file and the field.
    """
    given = check_fields(value, where, _FIELDS)
    names = list(dict.fromkeys((*PERSON_WORDS, "goal", "left", "steps", *known)))
    scene = None
    if "scene" in given:
        scene = read_frames(given["scene"], f"{where}.scene")
        names += [*SCENE_WORDS, *SCENE_FUNCTIONS]
    names += [name for name in (*_LISTS, "text", "question", "distractor") if name in given]
    draw = []
    for number, line in enumerate(_flat(given.get("draw", ()))):
        draw.append(_statement(line, f"{where}.draw[{number}]", names))
        names += draw[-1].names
    for name in ("text", "texts", "question", "questions"):
        check_placeholders(given.get(name, ()), f"{where}.{name}", names)
    for name in ("distractor", "distractors"):
        check_placeholders(given.get(name, ()), f"{where}.{name}", (*names, "x"))
    solve = []
    lines = given.get("solve", ())
    for number, line in enumerate([lines] if isinstance(lines, str) else lines):
        solve.append(_statement(line, f"{where}.solve[{number}]", names, steps=True))
        names += solve[-1].names
    do = []
    for number, one in enumerate(given.get("do", ())):
        do.append(read_template(one, f"{where}.do[{number}]", names))
        names += do[-1].names
    cases = [_case(one, f"{where}.cases[{i}]", names) for i, one in enumerate(given.get("cases", ()))]
    pick = [o for i, one in enumerate(given.get("pick", ())) for o in _options(one, f"{where}.pick[{i}]", names)]
    children = [node for _, node in cases] + [node for _, _, node in pick]
    assigned = {name for statement in draw for name in statement.names}
    return Node(
        scene=scene,
        given={name: frozen(given[name]) for name in (*_LISTS, "text", "question", "distractor") if name in given},
        draw=tuple(draw),
        drawn=tuple((one, many) for one, many in _PAIRS if many in given and one not in assigned),
        writes=bool({"text", "texts"} & {*given, *assigned}),
        unneeded=tuple(given["unneeded"]) if "unneeded" in given else None,
        share=given.get("share", 0.35 if "unneeded" in given else 0.4),
        spell=tuple(given.get("spell", ())),
        solve=tuple(solve),
        loop=_statement(given["while"], f"{where}.while", names).code if "while" in given else None,
        do=tuple(do),
        cases=tuple(cases),
        pick=tuple(pick),
        names=tuple(dict.fromkeys((*names, *(name for node in children for name in node.names)))),
    )


_PAIRS = (("text", "texts"), ("question", "questions"))


def _flat(lines: Sequence[Any]) -> Iterator[str]:
    """Statements, those of a YAML alias in the list included."""
    for line in lines:
        yield from _flat(line) if isinstance(line, list) else (line,)


def _case(value: Mapping[str, Any], where: str, names: Sequence[str]) -> tuple[CodeType | None, Node]:
    condition = _statement(value["if"], f"{where}.if", names).code if "if" in value else None
    return condition, read_template(value, where, names)


def _options(value: Mapping[str, Any], where: str, names: Sequence[str]) -> list[tuple[int, int, Node]]:
    steps = value.get("steps", [1, 9])
    low, high = (steps, steps) if isinstance(steps, int) else steps
    return [(low, high, read_template(value, where, names))] * value.get("weight", 1)


class _AsSteps(ast.NodeTransformer):
    """Every `a + b` → `add(a, b)`, which adds a step to the story."""

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        """Replace an operation and those inside it."""
        self.generic_visit(node)
        return ast.Call(ast.Name(_OPERATIONS[type(node.op)], ast.Load()), [node.left, node.right], [])


def _statement(line: object, where: str, known: Sequence[str], steps: bool = False) -> Statement:
    """`k, m = groups()` → its names and its compiled right side; with `steps` every operation becomes a step."""
    try:
        (parsed,) = ast.parse(str(line)).body
        targets = ast.unparse(parsed.targets[0]).strip("()") if isinstance(parsed, ast.Assign) else ""
        expression = ast.Expression(parsed.value)  # type: ignore[attr-defined]
    except (SyntaxError, ValueError, AttributeError) as error:
        raise UserError(f"{where}: {line!r} is not a statement such as `n = count(2, 60)`: {error}.") from error
    names = tuple(name.strip() for name in targets.split(",")) if targets else ()
    inside = [one for one in ast.walk(expression) if isinstance(one, ast.Name)]
    local = {one.id for one in inside if isinstance(one.ctx, ast.Store)}
    usable = {*known, *_FUNCTIONS, *WORDS, *local}
    wrong = [unknown("name", one.id, usable) for one in inside if one.id not in usable]
    wrong += [f"'{name}' is a function; choose another name." for name in names if name in _FUNCTIONS]
    if wrong:
        raise UserError(*wrong, where=f"{where}, {line!r}")
    tree = ast.fix_missing_locations(_AsSteps().visit(expression) if steps else expression)
    return Statement(names, compile(tree, where, "eval"))
