"""Ages: who is older by how much, now, later and together."""

from ruplar.problems.word_problems.story import Redraw, Story

STEPS = (1, 5)

_PLANS = {
    1: (("b",), ("later",)),
    2: (("b", "later"), ("b", "sum"), ("b", "c")),
    3: (("b", "c", "later"), ("b", "sum", "later"), ("b", "c", "gap")),
    4: (("b", "c", "sum"), ("b", "sum", "average", "later")),
    5: (("b", "c", "sum", "average"), ("b", "c", "sum", "uncle")),
}
_LATER = ("How old will {x} be in {n} years?", "How old will {x} be {n} years from now?")
_AGO = ("How old was {x} {n} years ago?",)


def build(story: Story) -> None:
    """Write one problem."""
    plan = story.pick(_PLANS[story.goal])
    age = story.between(4, 40)
    story.say(story.pick(("{a} is {n} years old.", "Today {a} turns {n} years old.")), n=age)
    ages, last = [age], "a"
    for who in plan:
        if who in "bc":
            ages.append(_relate(story, who, last, ages[-1]))
            last = who
    _ask(story, plan, ages, last)


def _relate(story: Story, who: str, other: str, age: int) -> int:
    """Another person's age, told by comparison."""
    x, y = story.words[who], story.words[other]
    kind = story.rng.random()
    if kind < 0.4:
        n = story.between(2, 30)
        story.say("{x} is {n} years older than {y}.", x=x, y=y, n=n)
        return story.add(age, n)
    if kind < 0.65:
        n = story.between(2, age - 2)
        story.say("{x} is {n} years younger than {y}.", x=x, y=y, n=n)
        return story.sub(age, n)
    if kind < 0.8 and age % 2 == 0:
        story.say("{x} is half as old as {y}.", x=x, y=y)
        return story.div(age, 2)
    k = story.pick((2, 2, 3, 4))
    if age * k > 95:
        raise Redraw
    story.say("{x} is {t} as old as {y}.", x=x, y=y, t="twice" if k == 2 else f"{story.spell(k)} times")
    return story.mul(age, k)


def _ask(story: Story, plan: tuple[str, ...], ages: list[int], last: str) -> None:
    x, end = story.words[last], plan[-1]
    everyone = "both" if len(ages) == 2 else "all three"
    if end in ("b", "c"):
        story.say("How old is {x}?", x=x)
    elif end == "gap":
        older = "older" if ages[-1] > ages[0] else "younger"
        story.say("How many years {older} than {a} is {x}?", older=older, x=x)
        story.sub(max(ages[-1], ages[0]), min(ages[-1], ages[0]))
    elif "sum" not in plan:
        n = story.between(2, 20)
        ago = story.chance(0.4) and ages[-1] > n + 1
        story.say(story.pick(_AGO if ago else _LATER), x=x, n=n)
        _ = story.sub(ages[-1], n) if ago else story.add(ages[-1], n)
    else:
        _together(story, plan, ages, everyone)


def _together(story: Story, plan: tuple[str, ...], ages: list[int], everyone: str) -> None:
    total = story.add_up(ages)
    if plan[-1] == "sum":
        story.say(story.pick(("How old are {all} together?", "What is the sum of their ages?")), all=everyone)
    elif plan[-1] == "average":
        story.say("What is the average age of {all}?", all=everyone)
        story.div(total, len(ages))
    elif "average" in plan:
        n = story.between(2, 20)
        story.say("{c} is {n} years older than the average age of {all}. How old is {c}?", n=n, all=everyone)
        story.add(story.div(total, len(ages)), n)
    else:
        n = story.between(2, 20)
        if total + n > 99:
            raise Redraw
        story.say("The sum of their ages is {n} less than the age of {a}'s uncle. How old is {a}'s uncle?", n=n)
        story.add(total, n)
