"""Random numbers → one problem being written: its sentences, its steps, and the rules that keep its arithmetic small and exact.

A family adds sentences and steps to a `Story`. Every step is computed here, so a chain cannot disagree with its answer. A step
that would be inexact, below 1 or above 999 raises `Redraw`, and the problem is drawn again.
"""

from collections.abc import Sequence
from random import Random

from ruplar.problems.seeding import Draws, Redraw, T
from ruplar.problems.word_problems.words import DIGIT_WORDS, DISTRACTORS, PEOPLE, Person

LARGEST = 999
"""The largest number of a problem: each number is one token of the embedded tokenizer."""

PERCENTS = (5, 10, 15, 20, 25, 30, 40, 50, 60, 75, 80, 90)
_ROUND = (15, 20, 25, 30, 40, 50, 60, 80, 100)


class Story(Draws):
    """One problem being written.

    Attributes:
        text: Sentences so far; the question is the last.
        steps: Steps so far, e.g. `12*3=36`.
        words: Placeholders of every template: `a`, `he`, `He`, `him`, `his`, `His` of the main person, `b` and `c` of two others.
    """

    __slots__ = ("random", "sample", "goal", "text", "steps", "words", "_random", "_beginning")

    def __init__(self, rng: Random, goal: int):
        super().__init__(rng)
        self.goal = goal
        self.random = self._random = rng.random
        self.sample = rng.sample
        self._beginning = ""
        self.text: list[str] = []
        self.steps: list[str] = []
        a, b, c = rng.sample(PEOPLE, 3)
        self.words: dict[str, object] = {"a": a.name, "b": b.name, "c": c.name, "he": a.he, "him": a.him, "his": a.his}
        self.words["He"], self.words["His"] = a.he.capitalize(), a.his.capitalize()

    # --- choices ---
    def chance(self, share: float) -> bool:
        """True with this probability."""
        return self._random() < share

    def skip(self) -> None:
        """Discard one random number."""
        self._random()

    def shuffled(self, options: Sequence[T]) -> list[T]:
        """The options in random order."""
        found = list(options)
        self.rng.shuffle(found)
        return found

    def person(self) -> Person:
        """Any person, perhaps one of `a`, `b` and `c`."""
        return self.pick(PEOPLE)

    # --- numbers ---
    def amount(self, multiple_of: int = 1, most: int = 300) -> int:
        """A starting amount: small, round, or with many divisors; always a multiple of `multiple_of`."""
        kind = self._random()
        if kind < 0.5:
            value = self.between(6, 99)
        elif kind < 0.8:
            value = 10 * self.between(2, most // 10)
        else:
            value = 12 * self.between(2, max(2, most // 12))
        value -= value % multiple_of
        return value if value >= 4 else 2 * multiple_of + 4 - 4 % multiple_of

    def some(self, most: int = 99) -> int:
        """The amount of one gain or loss."""
        kind = self._random()
        if kind < 0.55 or most < 20:
            return self.between(2, min(30, most))
        if kind < 0.8:
            return self.between(2, most)
        return 5 * self.between(2, most // 5)

    def lots(self, most: int = 240) -> tuple[int, int]:
        """The number of groups (2-9) and their size (2-12, or a round number), at most `most` in all."""
        count = self.between(2, 9)
        size = self.between(2, 12) if self.chance(0.65) else self.pick(_ROUND)
        if count * size > most:
            raise Redraw
        return count, size

    def percent_for(self, value: int, most: int = 90, least: int = 5) -> int:
        """A percentage from `least` to `most` that gives a whole number."""
        exact = [p for p in PERCENTS if value * p % 100 == 0 and least <= p <= most]
        if not exact:
            raise Redraw
        return self.pick(exact)

    def divisor_of(self, value: int, low: int = 2, high: int = 12) -> int:
        """A number from low to high that divides the value into at least two each."""
        exact = [k for k in range(low, min(high, value // 2) + 1) if value % k == 0]
        if not exact:
            raise Redraw
        return self.pick(exact)

    def factor_for(self, value: int, high: int = 12) -> int:
        """A number from 2 to `high` whose product with the value is small enough."""
        return self.between(2, min(high, LARGEST // value))

    # --- numbers of the short problems ---
    def count(self, least: int = 2, most: int = 99) -> int:
        """A number as short problems have them: mostly two digits, often one, sometimes three."""
        kind = self._random()
        if kind < 0.3:
            return self.between(least, min(most, max(least, 12)))
        if kind < 0.92:
            return self.between(least, most)
        return self.between(least, 6 * most if most >= 60 else most)

    def unlike(self, *used: int, most: int = 40) -> int:
        """A number for a distractor, different from the numbers in use."""
        value = self.between(2, most)
        if value in used:
            raise Redraw
        return value

    def groups(self) -> tuple[int, int]:
        """The number of groups and their size, which differ."""
        groups = self.between(2, 12) if self.chance(0.75) else self.between(11, 30)
        size = self.between(2, 12) if self.chance(0.7) else self.between(11, 32)
        if groups == size:
            raise Redraw
        return groups, size

    # --- steps ---
    def add(self, a: int, b: int) -> int:
        """Add the step a+b."""
        return self._step(f"{a}+{b}", a + b)

    def sub(self, a: int, b: int) -> int:
        """Add the step a-b."""
        return self._step(f"{a}-{b}", a - b)

    def mul(self, a: int, b: int) -> int:
        """Add the step a*b."""
        return self._step(f"{a}*{b}", a * b)

    def div(self, a: int, b: int) -> int:
        """Add the step a/b, which must be exact."""
        if a % b:
            raise Redraw
        return self._step(f"{a}/{b}", a // b)

    def percent(self, a: int, p: int) -> int:
        """Add the step a*p/100, which must be exact."""
        if a * p % 100:
            raise Redraw
        return self._step(f"{a}*{p}/100", a * p // 100)

    def add_up(self, values: Sequence[int]) -> int:
        """Add the values from left to right, one step per addition."""
        total = values[0]
        for value in values[1:]:
            total = self.add(total, value)
        return total

    def _step(self, left: str, result: int) -> int:
        if not 1 <= result <= LARGEST or len(self.steps) >= self.goal:
            raise Redraw
        self.steps.append(f"{left}={result}")
        return result

    @property
    def left(self) -> int:
        """Steps still missing."""
        return self.goal - len(self.steps)

    # --- sentences ---
    def line(self, options: Sequence[str]) -> str:
        """One of the templates; if possible one that does not begin like the last one drawn ("Then … Then …")."""
        for _ in range(4):
            found = self.pick(options)
            if found[:5] != self._beginning or found.startswith("{He"):
                break
        self._beginning = found[:5]
        return found

    def say(self, template: str, **values: object) -> None:
        """Add a sentence (or several); placeholders come from the arguments, then from `words`."""
        self.text.append(template.format_map({**self.words, **values} if values else self.words))

    def fill(self, template: str) -> str:
        """A template with its placeholders filled in from `words`."""
        return template.format_map(self.words)

    def spell(self, value: int) -> str:
        """A small count in digits, sometimes as a word."""
        return DIGIT_WORDS[value] if value <= 10 and self.chance(0.15) else str(value)

    def distract(self, share: float = 0.2, lines: Sequence[str] = DISTRACTORS) -> None:
        """Sometimes insert a sentence with an unneeded number, anywhere before the last sentence.

        A sentence about "the shop" does not come first, before a shop is mentioned.
        """
        if self.chance(share):
            line = self.pick(lines)
            first = 0 if line.startswith(("{a}", "It ")) else 1
            if len(self.text) > first:
                at = self.between(first, len(self.text) - 1)
                self.text.insert(at, line.format_map({**self.words, "x": self.between(5, 40)}))
