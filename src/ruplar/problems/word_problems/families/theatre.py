"""Theatre: rows of seats, tickets sold, prices; held out, though all its arithmetic and most of its words are known."""

from ruplar.problems.word_problems.story import Story

STEPS = (1, 4)
HELD_OUT = True

_PLACES = ("theatre", "cinema", "circus", "stadium")
_OPEN = (
    "{a}'s {place} has {k} rows of {m} seats.",
    "There are {k} rows with {m} seats each in {a}'s {place}.",
    "{a} runs a {place} with {k} rows of {m} seats.",
    "The {place} in {a}'s town has {k} rows with {m} seats in each.",
)
_SOLD = (
    "Tonight {n} seats are taken.",
    "The {place} sells {n} tickets for tonight.",
    "On {day} {n} people come to the show.",
)
_PERCENT = (
    "Tonight {p}% of the seats are taken.",
    "Tickets are sold for {p}% of the seats.",
    "On {day} {p}% of the seats are taken.",
)
_PRICE = ("Each ticket costs ${c}.", "Tickets cost ${c} each.")
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Sunday")


def build(story: Story) -> None:
    """Write one problem."""
    story.words.update(place=story.pick(_PLACES), day=story.pick(_DAYS))
    k, m = story.between(3, 12), story.between(4, 12) if story.chance(0.5) else story.pick((15, 20, 25, 30, 40))
    story.say(story.pick(_OPEN), k=k, m=m)
    seats = story.mul(k, m)
    if not story.left:
        story.say(story.pick(("How many seats are there in the {place}?", "How many seats is that in total?")))
    elif story.left == 1:
        _one(story, seats)
    else:
        p = story.percent_for(seats)
        story.say(story.pick(_PERCENT), p=p)
        _more(story, seats, story.percent(seats, p))


def _more(story: Story, seats: int, taken: int) -> None:
    """What follows when a share of the seats is taken."""
    if story.left == 2:
        empty = story.sub(seats, taken)
        n = story.some(max(2, empty // 2))
        story.say("Then {n} more people come in and sit down. How many seats are still empty?", n=n)
        story.sub(empty, n)
    elif story.chance(0.5):
        story.say("How many seats are empty?")
        story.sub(seats, taken)
    else:
        c = story.factor_for(taken)
        story.say(f"{story.pick(_PRICE)} How many dollars does the {{place}} earn?", c=c)
        story.mul(taken, c)


def _one(story: Story, seats: int) -> None:
    kind = story.rng.random()
    if kind < 0.5:
        n = story.some(seats * 3 // 4)
        story.say(f"{story.pick(_SOLD)} How many seats are empty?", n=n)
        story.sub(seats, n)
    elif kind < 0.8:
        c = story.factor_for(seats)
        story.say(f"All seats are sold. {story.pick(_PRICE)} How many dollars does the {{place}} earn?", c=c)
        story.mul(seats, c)
    else:
        p = story.percent_for(seats)
        story.say(f"{story.pick(_PERCENT)} How many seats is that?", p=p)
        story.percent(seats, p)
