"""Situation, work and money: so many a day by one or two people, what is paid for it, what is spent and what is left."""

from ruplar.problems.word_problems.short import count, lots
from ruplar.problems.word_problems.situations.telling import DONE, PRICED, Clause, Tale
from ruplar.problems.word_problems.story import Redraw, Story

STEPS = (2, 4)
GROUP = "situations"
_UNITS = (("day", "days"), ("hour", "hours"), ("week", "weeks"), ("minute", "minutes"), ("month", "months"))
_PAID = ("babysitting", "mowing lawns", "washing cars", "walking dogs", "tutoring", "delivering papers", "waiting tables", "painting fences", "cleaning houses")  # fmt: skip
_GOALS = (
    "a bike",
    "a guitar",
    "a tent",
    "a camera",
    "a phone",
    "a telescope",
    "a skateboard",
    "a game console",
    "a trip",
)


def build(story: Story) -> None:
    """Write one problem."""
    ways = {
        2: (_both_rates, _rates_apart, _come_and_go, _paid_and, _paid_rest),
        3: (_two_jobs, _paid_goods, _rates_both_rest, _still_to_save),
        4: (_two_jobs_rest, _goods_and_change),
    }
    story.pick(ways[story.goal])(story)


def _work(story: Story) -> tuple[Tale, str, str]:
    """A tale of something that is done again and again, and how that is said: `baked {x}`, `bake`."""
    tale = Tale(story, tuple(f for f in DONE if not f.measure))
    tale.two_people()
    tale.timed, tale.keep = True, ""
    verb = tale.verb()
    if not verb.past.endswith("{x}"):
        raise Redraw
    return tale, verb.past, verb.base


def _both_rates(story: Story) -> None:
    """Two of them, for some days: all."""
    (tale, past, base), (one, many) = _work(story), story.pick(_UNITS)
    m, n, k = count(story, 2, 40), count(story, 2, 40), story.between(2, 12)
    if len({m, n, k}) < 3:
        raise Redraw
    told = [Clause(past.replace("{x}", f"{v} {tale.x} each {one}"), p) for v, p in ((m, tale.a), (n, tale.b))]
    tale.tell(told, f"How many {tale.x} did they {base} together in {k} {many}?")
    story.mul(story.add(m, n), k)


def _rates_apart(story: Story) -> None:
    """Two of them, for some days: how many more."""
    (tale, past, base), (one, many) = _work(story), story.pick(_UNITS)
    n, d, k = count(story, 2, 40), story.between(2, 20), story.between(2, 12)
    told = [Clause(past.replace("{x}", f"{v} {tale.x} each {one}"), p) for v, p in ((n + d, tale.a), (n, tale.b))]
    tale.tell(told, f"How many more {tale.x} did {tale.a.name} {base} than {tale.b.name} in {k} {many}?")
    story.mul(story.sub(n + d, n), k)


def _come_and_go(story: Story) -> None:
    """So many come each day and some of them go."""
    tale, (one, many) = Tale(story, tuple(f for f in DONE if f.gain and f.lose and not f.measure)), story.pick(_UNITS)
    tale.timed, tale.keep = True, ""
    get, lose = tale.verb("gain"), tale.verb("lose")
    n, d, k = count(story, 2, 30), story.between(2, 20), story.between(2, 12)
    if one in ("hour", "minute") or not get.past.endswith("{x}") or not lose.past.endswith("{x}"):
        raise Redraw
    told = [Clause(f"{get.past.replace('{x}', f'{n + d} {tale.x}')} every {one} and {lose.past.replace('{x}', f'{n} of them')}", tale.a)]  # fmt: skip
    tale.tell(told, f"How many {tale.x} did {tale.a.name} have after {k} {many}?")
    story.mul(story.sub(n + d, n), k)


def _rates_both_rest(story: Story) -> None:
    """Two of them, for some days; then how many are still to be done."""
    (tale, past, base), (one, many) = _work(story), story.pick(_UNITS)
    m, n, k, rest = count(story, 2, 30), count(story, 2, 30), story.between(2, 9), count(story)
    told = [Clause(f"{tale.a.name} and {tale.b.name} had to {base} {(m + n) * k + rest} {tale.x}")]
    told += [Clause(past.replace("{x}", f"{v} {tale.x} each {one}"), p) for v, p in ((m, tale.a), (n, tale.b))]
    tale.tell(told, f"How many {tale.x} were left after {k} {many}?")
    story.sub((m + n) * k + rest, story.mul(story.add(m, n), k))


def _hour(story: Story) -> tuple[int, int, str]:
    """Hours, what an hour is paid, and what for."""
    k, m = lots(story)
    return k, m, story.pick(_PAID)


def _payer(story: Story) -> Tale:
    tale = Tale(story, PRICED)
    tale.timed, tale.keep = True, ""
    return tale


def _paid_and(story: Story) -> None:
    """Pay by the hour, and something on top or already there."""
    tale = _payer(story)
    (k, m, job), n = _hour(story), count(story)
    told = [Clause(story.pick((f"earns ${m} an hour {job}", f"gets ${m} for each hour of {job}")), tale.a)]
    if story.chance(0.5):
        told.append(Clause(story.pick((f"worked {k} hours and got ${n} in tips", f"worked {k} hours and was given a bonus of ${n}")), tale.a))  # fmt: skip
        tale.tell(told, story.pick((f"How much did {tale.a.name} earn in all?", f"How many dollars did {tale.a.name} make?")))  # fmt: skip
    else:
        told.insert(0, Clause(f"already has ${n}", tale.a))
        tale.tell(told, f"How much money will {tale.a.name} have after {k} hours?")
    story.add(story.mul(k, m), n)


def _paid_rest(story: Story) -> None:
    """Pay by the hour, less what is spent of it."""
    tale = _payer(story)
    (k, m, job), n = _hour(story), count(story)
    told = [
        Clause(f"worked {k} hours {job} for ${m} an hour", tale.a),
        Clause(f"spent ${n} of it on {tale.x}", tale.a),
    ]
    tale.tell(told, story.pick((f"How much money does {tale.a.name} have left?", "How much of the money is left?")))
    story.sub(story.mul(k, m), n)


def _two_jobs(story: Story) -> None:
    """Two kinds of work at two rates."""
    tale = _payer(story)
    (k, m, job), (j, n, other) = _hour(story), _hour(story)
    if job == other or len({k, m, j, n}) < 4:
        raise Redraw
    told = [Clause(f"earns ${m} an hour {job} and ${n} an hour {other}", tale.a)]
    week = story.pick(("This week", "Last week", "Last month"))
    told.append(Clause(f"{week} it was {k} hours of {job} and {j} hours of {other}"))
    tale.tell(told, f"How much money did {tale.a.name} make?")
    story.add(story.mul(m, k), story.mul(n, j))


def _two_jobs_rest(story: Story) -> None:
    """The same, less what is spent."""
    tale = _payer(story)
    (k, m, job), (j, n, other), spent = _hour(story), _hour(story), count(story, 5)
    if job == other or len({k, m, j, n, spent}) < 5:
        raise Redraw
    told = [Clause(f"worked {k} hours {job} for ${m} an hour and {j} hours {other} for ${n} an hour", tale.a), Clause(f"spent ${spent} on {tale.x}", tale.a)]  # fmt: skip
    tale.tell(told, f"How much of the money does {tale.a.name} have left?")
    story.sub(story.add(story.mul(k, m), story.mul(j, n)), spent)


def _paid_goods(story: Story) -> None:
    """Things are made at a cost and sold at a price: what is gained."""
    tale = _payer(story)
    k, m, d, fee = story.between(3, 40), story.between(2, 15), story.between(2, 12), count(story, 2, 50)
    if len({k, m, m + d, fee}) < 4:
        raise Redraw
    told = [Clause(f"bought {k} {tale.x} for ${m} each and sold them for ${m + d} each", tale.a)]
    told.append(Clause(story.pick((f"also paid ${fee} for a stand", f"paid ${fee} for the delivery", f"spent ${fee} on a permit")), tale.a))  # fmt: skip
    tale.tell(told, f"How much profit did {tale.a.name} make?")
    story.sub(story.mul(story.sub(m + d, m), k), fee)


def _still_to_save(story: Story) -> None:
    """Saving so much a week: how many weeks are missing."""
    tale = _payer(story)
    k, m, had, gift = story.between(2, 15), story.between(3, 25), count(story, 3), story.between(5, 50)
    one, many = story.pick((("week", "weeks"), ("month", "months")))
    if len({k, m, had, gift}) < 4:
        raise Redraw
    told = [Clause(f"wants to buy {story.pick(_GOALS)} that costs ${had + gift + k * m}", tale.a)]
    told += [Clause(f"already has ${had} and got ${gift} from {tale.b.name}", tale.a), Clause(f"can save ${m} a {one}", tale.a)]  # fmt: skip
    tale.tell(told, f"How many {many} will it take {tale.a.name} to save the rest?")
    story.div(story.sub(story.sub(had + gift + k * m, had), gift), m)


def _goods_and_change(story: Story) -> None:
    """Two sorts of goods are paid with more than they cost."""
    tale = _payer(story)
    (k, m), (j, n), rest = lots(story), lots(story), count(story)
    if len({k, m, j, n}) < 4 or tale.x == tale.y:
        raise Redraw
    told = [Clause(f"had ${k * m + j * n + rest}", tale.a)]
    told += [
        Clause(f"bought {k} {tale.x} for ${m} each", tale.a),
        Clause(f"bought {j} {tale.y} at ${n} apiece", tale.a),
    ]
    tale.tell(told, story.pick((f"How much money does {tale.a.name} have left?", f"How many dollars did {tale.a.name} have left?")))  # fmt: skip
    story.sub(k * m + j * n + rest, story.add(story.mul(k, m), story.mul(j, n)))
