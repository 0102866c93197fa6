"""Clauses and what they come to → one or two things that happen to all of it, and the question: how a longer situation ends."""

from __future__ import annotations

from collections.abc import Sequence

from ruplar.problems.word_problems.short import count
from ruplar.problems.word_problems.situations.telling import Clause, Tale
from ruplar.problems.word_problems.story import Redraw, Story

RESTS = ("lose", "groups", "each")
"""What may happen to any lot: some of it goes, it is put into groups of a size, or parted into so many groups."""
ENDS = (*RESTS, "gain", "price")


def then(
    story: Story,
    tale: Tale,
    told: Sequence[Clause],
    value: int,
    ends: int,
    *,
    together: bool = False,
    only: Sequence[str] = ENDS,
) -> None:
    """Take the last `ends` steps with `value` things of the tale, and say it all.

    Args:
        story: The problem.
        tale: Its words; the things are `tale.x`.
        told: What has been said so far.
        value: How many there are by now.
        ends: How many steps are left, 1 or 2.
        together: Whether several people have them, not the tale's first alone.
        only: Which ways to end there are.

    Raises:
        Redraw: The numbers do not go with it.
    """
    said = list(told)
    if ends > 1:
        value, clause = _changed(story, tale, value, story.pick(("lose", "lose", "gain")), together)
        said.append(clause)
    way = story.pick(only)
    if ends > 1 and way in ("lose", "gain"):
        raise Redraw
    if way in ("lose", "gain"):
        value, clause = _changed(story, tale, value, way, together)
        said.append(clause)
        question = f"How many {tale.x} do they have {'left' if way == 'lose' else 'now'}?"
        if not together:
            question = tale.ask_has(tale.x, "left" if way == "lose" else "now")
    elif way == "price":
        said, question = _priced(story, tale, said, value, together)
    else:
        said, question = _parted(story, tale, said, value, together, way)
    tale.tell(said, question)


def _changed(story: Story, tale: Tale, value: int, way: str, together: bool) -> tuple[int, Clause]:
    """Some go, or come: how many there are then, and what is said of it."""
    n = count(story, 2, min(99, value - 2) if way == "lose" else 60)
    verb = tale.verb(way)
    if together and (tale.a.his in verb.past.split() or tale.b.name in verb.past or verb.past.startswith("was ")):
        raise Redraw
    item = tale.x if story.chance(0.6) else ("of them" if way == "lose" else f"more {tale.x}")
    text = verb.past.replace("{x}", f"{n} {item}")
    value = story.sub(value, n) if way == "lose" else story.add(value, n)
    return value, Clause(f"They {text}") if together else Clause(text, tale.a)


def _parted(
    story: Story, tale: Tale, said: list[Clause], value: int, together: bool, way: str
) -> tuple[list[Clause], str]:
    """All of it in groups: how many groups, or how many in each."""
    holder = story.pick(tale.frame.holders)
    k = story.divisor_of(value, 2, 20)
    want, name = ("want", "they") if together else ("wants", tale.a.name)
    does = "do" if together else "does"
    subject = None if together else tale.a
    opening = "They " if together else ""
    if way == "groups":
        said.append(Clause(f"{opening}{want} to put {k} {tale.x} {holder.put} each {holder.one}", subject))
        question = f"How many {holder.many} {does} {name} need?"
    else:
        said.append(Clause(f"{opening}{want} to put them all {holder.put} {k} {holder.many}, with the same number {holder.put} each", subject))  # fmt: skip
        question = f"How many {tale.x} will be {holder.put} each {holder.one}?"
    story.div(value, k)
    return said, question


def _priced(story: Story, tale: Tale, said: list[Clause], value: int, together: bool) -> tuple[list[Clause], str]:
    """All of it is sold at so much each."""
    sold = any("sold" in clause.text for clause in said)  # which of the two sales would be asked about?
    if sold or not tale.frame.priced:
        raise Redraw
    k = story.between(2, 12)
    subject, opening = (None, "They ") if together else (tale.a, "")
    said.append(Clause(f"{opening}sold all of the {tale.x} for ${k} each", subject))
    name = "they" if together else tale.a.name
    story.mul(value, k)
    return said, story.pick((f"How much money did {name} make?", f"How many dollars did {name} get?"))
