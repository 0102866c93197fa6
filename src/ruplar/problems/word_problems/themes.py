"""Theme → a problem about one quantity that changes: the engine behind the families with a `theme` field.

A problem has an opening (a number, equal groups, two kinds, or two sizes of groups), events (gains, losses, a percentage lost,
doubling) and a closing (what is left, shares, boxes, worth, a comparison). Each adds 0-3 steps; the engine picks parts whose
steps add up to the goal. A theme has nothing but sentences for these parts.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from ruplar.problems.data_files import check_fields, frozen, load
from ruplar.problems.word_problems.story import LARGEST, Redraw, Story
from ruplar.problems.word_problems.words import DISTRACTORS, FOLDER, WORDS

Lines = tuple[str, ...]

_PARTS: dict[str, Any] = load(FOLDER / "theme_parts.yaml")
_OPENINGS: dict[str, int] = _PARTS["openings"]
_EVENTS: dict[str, int] = _PARTS["events"]
_CLOSINGS: dict[str, tuple[str, int]] = _PARTS["closings"]


@dataclass(frozen=True)
class Theme:
    """Sentences for each part; a part without sentences is not used.

    Placeholders: `a`, `b`, `he`… of the story, one word of each of `choices` (its words, or the name of a list of `words.yaml`), and
    `n` a number, `k` the number of groups, `m` their size, `p` a percentage, `j` and `l` the second groups of `parts`, `x` an
    unneeded number, `times` and `timed` of `times` (doubles, doubled), `rel` a comparison ("12 more coins than") made of one of
    `more`: by addition, by subtraction, by a factor. `versus` and `portion` are a sentence, a question about the other or the share,
    and one about both or the rest.
    """

    plain: Lines
    ask: Lines
    ask_left: Lines = ()
    ask_all: Lines = ()
    product: Lines = ()
    kinds: Lines = ()
    parts: Lines = ()
    gain: Lines = ()
    lose: Lines = ()
    half: Lines = ()
    times: Lines = ()
    gain_lots: Lines = ()
    lose_lots: Lines = ()
    percent: Lines = ()
    share: Lines = ()
    fill: Lines = ()
    worth: Lines = ()
    lacks: Lines = ()
    versus: tuple[Lines, ...] = ()
    portion: tuple[Lines, ...] = ()
    more: Lines = ("{n} more {items} than", "{n} fewer {items} than", "{t} as many {items} as")
    choices: Mapping[str, Lines] = field(default_factory=dict)
    distractors: Lines = DISTRACTORS


def read_theme(value: object, where: str) -> Theme:
    """The `theme` field of a family file → the theme."""
    given: dict[str, Any] = dict(check_fields(value, where, [f.name for f in fields(Theme)], ("plain", "ask")))
    given["choices"] = {
        slot: WORDS[some] if isinstance(some, str) else some for slot, some in given.get("choices", {}).items()
    }
    return Theme(**frozen(given))


def write(story: Story, theme: Theme) -> None:
    """Write one problem of the theme into the story."""
    story.words.update({slot: story.pick(options) for slot, options in theme.choices.items()})
    opening, events, closing = _plan(story, theme)
    parts = [*events, closing]
    value = _open(story, theme, opening, _need(story, parts[0]))
    most, shrunk = value, False
    for now, following in zip(events, parts[1:], strict=True):
        value = _event(story, theme, now, value, _need(story, following), shrunk)
        shrunk = shrunk or now in _PARTS["losses"]
        most = max(most, value)
    if closing == "lacks":
        # a full tank cannot hold less than it once held, so more than there ever was
        n = most + story.some(min(150, LARGEST - most))
        story.say(story.pick(theme.lacks), n=n)
        story.sub(n, value)
    else:
        _close(story, theme, closing, value, events)
    story.distract(lines=theme.distractors)


def _plan(story: Story, theme: Theme) -> tuple[str, list[str], str]:
    opening = _choose(story, [o for o, cost in _OPENINGS.items() if cost <= story.goal and getattr(theme, o)])
    left = story.goal - _OPENINGS[opening]
    closing = "ask"
    if story.chance(0.55):
        closing = story.pick([c for c, (part, cost) in _CLOSINGS.items() if cost <= left and getattr(theme, part)])
    left -= _CLOSINGS[closing][1]
    events: list[str] = []
    while left:
        usable = [
            e
            for e, cost in _EVENTS.items()
            if cost <= left
            and getattr(theme, e)
            and e not in events[-1:]
            and not (e in _PARTS["once"] and e in events)
        ]
        events.append(_choose(story, usable))
        left -= _EVENTS[events[-1]]
    return opening, events, closing


def _choose(story: Story, options: list[str]) -> str:
    return story.pick([o for o in options for _ in range(_PARTS["weights"].get(o, 1))])


def _need(story: Story, part: str) -> int:
    """The number that the value must be a multiple of, so that this part gives a whole number."""
    if part == "half":
        return 2
    if part in ("percent", "portion", "rest"):
        return story.pick((4, 5, 10, 10, 20, 20))
    return story.between(3, 10) if part in ("share", "fill") else 1


def _open(story: Story, theme: Theme, kind: str, need: int) -> int:
    line = story.pick(getattr(theme, kind))
    if kind == "plain":
        value = story.amount(need)
        story.say(line, n=value)
        return value
    if kind == "kinds":
        first, second = story.amount(), story.amount()
        second += -(first + second) % need
        story.say(line, n=first, m=second)
        return story.add(first, second)
    count, size = story.lots()
    if kind == "product":
        count += -count % need if size % need else 0
        story.say(line, k=story.spell(count), m=size)
        return story.mul(count, size)
    other, others = story.lots()
    story.say(line, k=story.spell(count), m=size, j=story.spell(other), l=others)
    return story.add(story.mul(count, size), story.mul(other, others))


def _event(story: Story, theme: Theme, kind: str, value: int, need: int, shrunk: bool) -> int:
    """Write one event; the value after it, a multiple of `need` where the event leaves a choice."""
    line = story.line(getattr(theme, kind))
    if kind == "gain":
        n = story.some(min(150, LARGEST - need - value))
        n += -(value + n) % need
        story.say(line, n=n)
        return story.add(value, n)
    if kind == "lose":
        n = story.some(min(150, value * 3 // 4))
        n += (value - n) % need
        story.say(line, n=n)
        return story.sub(value, n)
    if kind == "half":
        story.say(_remaining(line, shrunk))
        return story.div(value, 2)
    if kind == "times":
        k = story.pick((2, 2, 3))
        story.say(line, times="doubles" if k == 2 else "triples", timed="doubled" if k == 2 else "tripled")
        return story.mul(value, k)
    if kind == "percent":
        p = story.percent_for(value)
        story.say(_remaining(line, shrunk), p=p)
        return story.sub(value, story.percent(value, p))
    k, m = story.lots(min(240, value - 2) if kind == "lose_lots" else 240)
    story.say(line, k=story.spell(k), m=m)
    return story.sub(value, story.mul(k, m)) if kind == "lose_lots" else story.add(value, story.mul(k, m))


def _close(story: Story, theme: Theme, kind: str, value: int, events: list[str]) -> None:
    shrunk = any(e in _PARTS["losses"] for e in events)
    if kind == "ask":
        asks = theme.ask
        if not events:
            asks = theme.ask_all or asks
        elif events[-1] in _PARTS["losses"]:
            asks = theme.ask_left or asks
        story.say(story.pick(asks))
    elif kind in ("share", "fill"):
        k = story.divisor_of(value)
        story.say(_remaining(story.pick(getattr(theme, kind)), shrunk), k=story.spell(k) if kind == "share" else k)
        story.div(value, k)
    elif kind == "worth":
        k = story.factor_for(value)
        story.say(_remaining(story.pick(theme.worth), shrunk), k=k)
        story.mul(value, k)
    elif kind in ("other", "both"):
        line, other, both = story.pick(theme.versus)
        rel, result = compare(story, value, theme.more)
        story.say(f"{line} {other if kind == 'other' else both}", rel=rel)
        if kind == "both":
            story.add(value, result)
    else:
        line, part, rest = story.pick(theme.portion)
        p = story.percent_for(value)
        story.say(_remaining(f"{line} {part if kind == 'portion' else rest}", shrunk), p=p)
        found = story.percent(value, p)
        if kind == "rest":
            story.sub(value, found)


def _remaining(line: str, shrunk: bool) -> str:
    """Say "remaining" after a loss: "all the coins" could include those that were lost."""
    if not shrunk:
        return line
    for words in ("ll the ", "alf of the ", "% of the "):
        line = line.replace(words, f"{words}remaining ")
    return line


def compare(story: Story, value: int, phrases: Lines) -> tuple[str, int]:
    """Add one step from a value to another person's: ("12 more coins than", the other value)."""
    more, fewer, times = phrases
    kind = story.rng.random()
    if kind < 0.4:
        n = story.some(99)
        return more.format_map({**story.words, "n": n}), story.add(value, n)
    if kind < 0.65:
        n = story.some(value * 3 // 4)
        return fewer.format_map({**story.words, "n": n}), story.sub(value, n)
    if kind < 0.75 and value % 2 == 0:
        return times.format_map({**story.words, "t": "half"}), story.div(value, 2)
    k = story.pick((2, 2, 3, 4, 5))
    if value * k > LARGEST:
        raise Redraw
    factor = "twice" if k == 2 else f"{story.spell(k)} times"
    return times.format_map({**story.words, "t": factor}), story.mul(value, k)
