"""Family files → families: every `families/*.yaml` is one family of word problems, so adding a file adds a family.

    about: "Bakery: trays are baked, sold, dropped and packed."   # one line, for `ruplar list families`
    steps: [1, 6]                                                 # minimum and maximum
    theme: ...       # sentences about one quantity that changes (themes.py), or
    template: ...    # a tree of nodes: values drawn, texts, a solution (templates.py)

Optional: `held_out: true` keeps the family out of the embedded model's training; `group: short` or `group: situations` adds it
to `word-problems:short` or `word-problems:situations` and removes it from the default families; `constants` are words that
denote numbers; with a template, `lists` are word lists to draw from and `distractors` sentences with an unneeded number (or
`default`), of which one is sometimes inserted.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ruplar.errors import UserError
from ruplar.problems.data_files import check_fields, frozen, load
from ruplar.problems.word_problems import themes
from ruplar.problems.word_problems.statements import BUILTINS
from ruplar.problems.word_problems.story import Story
from ruplar.problems.word_problems.templates import choose_short_words, read_template
from ruplar.problems.word_problems.words import DISTRACTORS, FOLDER

_HEAD = ("about", "steps", "held_out", "group", "constants")
_KINDS = ("theme", "template")
_GROUPS = ("", "short", "situations")


@dataclass(frozen=True)
class Family:
    """One family of problems."""

    name: str
    read: Callable[[], Callable[[Story], None]]
    steps: tuple[int, int]
    held_out: bool
    constants: dict[str, tuple[int, ...]]
    about: str
    group: str = ""


def read_family(path: Path) -> Family:
    given = check_fields(load(path), path.name, (*_HEAD, *_KINDS, "lists", "distractors"), ("about", "steps"))
    kinds = [kind for kind in _KINDS if kind in given]
    if len(kinds) != 1:
        raise UserError(f"{path.name}: needs exactly one of {', '.join(_KINDS)}; it has {', '.join(kinds) or 'none'}.")
    group = given.get("group", "")
    if group not in _GROUPS:
        raise UserError(f"{path.name}: group must be short or situations, not {group!r}.")
    read = cache(lambda: _compile(given, path.name))
    low, high = given["steps"]
    constants = frozen(given.get("constants", {}))
    return Family(path.stem, read, (low, high), given.get("held_out", False), constants, given["about"], group)


def _compile(given: Mapping[str, Any], where: str) -> Callable[[Story], None]:
    if "theme" in given:
        theme = themes.read_theme(given["theme"], f"{where}: theme")
        return lambda story: themes.write(story, theme)
    short = given.get("group") == "short"
    own: dict[str, Any] = frozen(given.get("lists", {}))
    node = read_template(given["template"], f"{where}: template")
    lists = {**BUILTINS, **own}
    distractors = given.get("distractors", ())
    lines = DISTRACTORS if distractors == "default" else tuple(distractors)

    def build(story: Story) -> None:
        if short:
            choose_short_words(story)
        node.write(story, lists)
        if lines:
            story.distract(lines=lines)

    return build


FAMILIES: dict[str, Family] = {path.stem: read_family(path) for path in sorted(FOLDER.glob("families/*.yaml"))}
"""Name → family, sorted by name."""

DRILLS = ("drills",)
"""Bare arithmetic; helps pretraining, belongs to no benchmark."""

HELD_OUT = tuple(name for name, family in FAMILIES.items() if family.held_out)
"""Families the embedded model never saw."""

SHORT = tuple(name for name, family in FAMILIES.items() if family.group == "short")
"""Short problems in the manner of SVAMP and MultiArith; `word-problems:short` selects all of them."""

SITUATIONS = tuple(name for name, family in FAMILIES.items() if family.group == "situations")
"""Short problems in many more wordings (`scenes.py`); `word-problems:situations` selects all of them."""

TRAIN_FAMILIES = tuple(name for name, family in FAMILIES.items() if name not in HELD_OUT + DRILLS and not family.group)
"""Families the embedded model was trained on; the default."""
