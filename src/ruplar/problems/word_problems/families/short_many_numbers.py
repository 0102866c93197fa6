"""Short, many numbers: a list of amounts of which the question needs two or three."""

from ruplar.problems.word_problems.short import KINDS, apart, begin, count, tell
from ruplar.problems.word_problems.story import Redraw, Story

STEPS = (1, 2)
GROUP = "short"

_LIST = (
    "{a} has {p} {kind} {things}, {q} {other} {things} and {r} {third} {things}.",
    "In the {place} there are {p} {kind}, {q} {other} and {r} {third} {things}.",
    "A {worker} counted {p} {kind} {things}, {q} {other} ones and {r} {third} ones.",
)
_LEVELS = (
    "{a} used {p} {kind} and {q} {other} {things} on {day} and {r} {kind} {things} on {later}.",
    "{a} sold {p} {kind} and {q} {other} {things} in the morning and {r} {kind} {things} in the evening.",
)  # fmt: skip


def build(story: Story) -> None:
    """Write one problem."""
    begin(story)
    taken = (story.words["kind"], story.words["other"])
    story.words["third"] = story.pick([kind for pair in KINDS for kind in pair if kind not in taken])
    p, q, r = count(story), count(story), count(story)
    if len({p, q, r}) < 3:
        raise Redraw
    if story.goal == 1 and story.chance(0.4):
        ask = "How many {kind} {things} did {he} {verb} in both?"
        verb, at = story.pick((("use", 0), ("sell", 1)))
        both = " on the two days?" if verb == "use" else " that day?"
        tell(story, _LEVELS[at], ask.replace(" in both?", both), p=p, q=q, r=r, verb=verb)
        story.add(p, r)
        return
    line = story.pick(_LIST)
    if story.goal == 1:
        gap = story.chance(0.5) and p > q
        ask = (
            "How many more {kind} {things} than {other} ones are there?"
            if gap
            else "How many {kind} and {other} {things} are there together?"
        )
        tell(story, line, ask, idle="{c} has {x} cats.", share=0.2, p=p, q=q, r=r, x=apart(story, p, q, r))
        (story.sub if gap else story.add)(p, q)
    elif story.chance(0.5):
        tell(story, line, "How many {things} is that altogether?", p=p, q=q, r=r)
        story.add(story.add(p, q), r)
    else:
        n = story.between(2, p + q - 1)
        tell(
            story,
            line,
            "{b} takes {n} of the {kind} and {other} {things}.",
            "How many {kind} and {other} {things} are left?",
            p=p,
            q=q,
            r=r,
            n=n,
        )
        story.sub(story.add(p, q), n)
