"""Template of a family file → problems: numbers are drawn, texts filled in, and the solution computed step by step.

A template is a tree of nodes. Each node may, in this order: make a scene (for situations), draw values, write a text, add the
steps of its solution, and continue with its children. In a family file a node has these fields:

    draw        Statements that draw or compute values: `n = count(2, 60)`, `k, m = groups()`, `total = k * m + n`,
                `require(n < m)`, `text = pick(texts)`. See `statements.py`.
    texts       Texts of which one is drawn, after `draw` unless a statement draws it. A text is a sentence or a list of them.
    text        The same where there is only one: nothing is drawn.
    questions, question    The question of a scene, drawn or given likewise.
    distractors, distractor, share    Sentences with an unneeded number; how often one is inserted before the question.
    unneeded    Scenes: the values that matter; a clause with another number is inserted with probability `share`.
    spell       Numbers that the text sometimes spells out: `[k]`.
    solve       Statements whose every operation is one step: `total - k * m` adds the steps k*m and total-….
    do          Children that are run one after the other.
    while       The node is repeated as long as this holds: `while: left > 1`.
    cases       Children; the first one whose `if` holds is used: `if: left == 1 and chance(0.5)`.
    pick        Children of which one is drawn, `weight` times as often; only those with a fitting `steps`.
    scene       Which frames a scene is about, and how it is worded (`scenes.py`).

`skip()` in `draw` discards one random number, so that a seed gives the same problems as before an edit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Any

from ruplar.problems.data_files import check_fields, frozen
from ruplar.problems.word_problems.scenes import Scene, read_scene
from ruplar.problems.word_problems.statements import compile_block, compile_condition
from ruplar.problems.word_problems.story import Story
from ruplar.problems.word_problems.words import HOLDERS, WORDS

_TEXTS = ("text", "texts", "question", "questions", "distractor", "distractors")
_FIELDS = (
    *("scene", "draw", *_TEXTS, "share", "unneeded", "spell", "solve"),
    *("do", "while", "cases", "pick", "if", "weight", "steps"),
)
SHORT_WORDS = ("things", "place", "worker", "one", "many", "put", "kind", "other", "day", "later")
"""Placeholders of the short problems."""


@dataclass(frozen=True)
class Node:
    """One node of a template, compiled; the attributes are the fields of the YAML form.

    `given` are its texts and questions, `drawn` those of which one is drawn after `draw`.
    """

    scene: Mapping[str, Any] | None
    draw: CodeType | None
    given: Mapping[str, Any]
    drawn: tuple[tuple[str, str], ...]
    writes: bool
    share: float
    unneeded: tuple[str, ...] | None
    spell: tuple[str, ...]
    solve: CodeType | None
    loop: CodeType | None
    do: tuple[Node, ...]
    cases: tuple[tuple[CodeType | None, Node], ...]
    pick: tuple[tuple[int, int, Node], ...]

    def write(self, story: Story, lists: Mapping[str, Any]) -> None:
        """Write a problem into the story; the node is the root of a template."""
        words: dict[str, Any] = story.words
        words["__builtins__"], words["story"] = lists, story
        try:
            self._run(story, None)
        finally:
            for name in ("story", "scene"):  # the story would refer to itself
                words.pop(name, None)

    def _run(self, story: Story, scene: Scene | None) -> None:
        words: dict[str, Any] = story.words
        while self.loop is None or eval(self.loop, words):  # noqa: S307  (the package's own data files)
            if self.scene is not None:
                scene = Scene(story, **self.scene)
                words.update(scene.values())
            words.update(self.given)
            if self.draw is not None:
                exec(self.draw, words)  # noqa: S102
            for name, among in self.drawn:
                words[name] = story.pick(words[among])
            if self.writes:
                self._write(story, scene)
            if self.solve is not None:
                exec(self.solve, words)  # noqa: S102
            for child in self.do:
                child._run(story, scene)
            chosen = self._chosen(story)
            if chosen is not None:
                chosen._run(story, scene)
            if self.loop is None:
                return

    def _write(self, story: Story, scene: Scene | None) -> None:
        words: dict[str, Any] = story.words
        text = words["text"]
        if isinstance(text, dict):  # a text with a question of its own
            words.update(text)
            text = words["text"]
        distractor = words.get("distractor")
        if scene is not None:
            if self.unneeded is not None:
                distractor = scene.distractor(*(words[name] for name in self.unneeded))
            clauses = [scene.clause(one, words) for one in text]
            scene.write(clauses, words["question"].format_map(words), distractor or None, self.share)
            return
        shown = {**words, **{name: story.spell(words[name]) for name in self.spell}} if self.spell else words
        sentences = [text] if isinstance(text, str) else list(text)
        if distractor and len(sentences) > 1 and story.chance(self.share):
            sentences.insert(story.between(1, len(sentences) - 1), distractor)
        story.text.extend([sentence.format_map(shown) for sentence in sentences])

    def _chosen(self, story: Story) -> Node | None:
        for condition, child in self.cases:
            if condition is None or eval(condition, story.words):  # noqa: S307
                return child
        if not self.pick:
            return None
        return story.pick([node for low, high, node in self.pick if low <= story.goal <= high])


def choose_short_words(story: Story) -> None:
    """Draw the words that most short problems use: `things`, `place`, `worker`, a holder, two kinds, two days."""
    holder = story.pick(HOLDERS)
    kinds = story.pick(WORDS["kinds"])
    days = story.rng.sample(WORDS["days"], 2)
    things, place, worker = (story.pick(WORDS[name]) for name in ("things", "places", "workers"))
    kind, other = reversed(kinds) if story.chance(0.5) else kinds
    story.words.update(zip(SHORT_WORDS, (things, place, worker, *holder, kind, other, *days), strict=True))


def read_template(value: object, where: str) -> Node:
    """A node of a family file → the compiled node."""
    given = check_fields(value, where, _FIELDS)
    draw = compile_block(_flat(given.get("draw", ())), f"{where}.draw")
    return Node(
        scene=read_scene(given["scene"], f"{where}.scene") if "scene" in given else None,
        draw=draw.code,
        given={name: frozen(given[name]) for name in _TEXTS if name in given},
        drawn=tuple(pair for pair in _DRAWN if pair[1] in given and pair[0] not in draw.names),
        writes=bool({"text", "texts"} & {*given, *draw.names}),
        share=given.get("share", 0.35 if "unneeded" in given else 0.4),
        unneeded=tuple(given["unneeded"]) if "unneeded" in given else None,
        spell=tuple(given.get("spell", ())),
        solve=compile_block(_flat(given.get("solve", ())), f"{where}.solve", steps=True).code,
        loop=compile_condition(given["while"], f"{where}.while") if "while" in given else None,
        do=tuple(read_template(one, f"{where}.do[{i}]") for i, one in enumerate(given.get("do", ()))),
        cases=tuple(_case(one, f"{where}.cases[{i}]") for i, one in enumerate(given.get("cases", ()))),
        pick=tuple(
            option for i, one in enumerate(given.get("pick", ())) for option in _options(one, f"{where}.pick[{i}]")
        ),
    )


_DRAWN = (("text", "texts"), ("question", "questions"))


def _flat(lines: str | Sequence[Any]) -> Iterator[str]:
    """One statement or several; those of a YAML alias in the list included."""
    for line in [lines] if isinstance(lines, str) else lines:
        yield from _flat(line) if isinstance(line, list) else (line,)


def _case(value: Mapping[str, Any], where: str) -> tuple[CodeType | None, Node]:
    condition = compile_condition(value["if"], f"{where}.if") if "if" in value else None
    return condition, read_template(value, where)


def _options(value: Mapping[str, Any], where: str) -> list[tuple[int, int, Node]]:
    steps = value.get("steps", [1, 9])
    low, high = (steps, steps) if isinstance(steps, int) else steps
    return [(low, high, read_template(value, where))] * value.get("weight", 1)
