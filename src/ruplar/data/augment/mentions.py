"""Question → the numbers it mentions: where each stands, what it counts, and whether another may stand in its place.

`$1,200.50`, `25%`, `.5`, `three`, `twenty-five` are mentions that can be drawn again. These stay as they are written:

    half, twice, dozen, second         no mentions at all
    1, one, 1/2, two-thirds, 2 million  too tightly bound to the words around them
    10:30, 5 pm, May 4, 2019            dates and times: no range of numbers
    day 3, 4x6, 10-12, iPhone 12, 3rd   labels, sizes, ranges
    7 days a week, 60 minutes, 4 legs   facts
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

Value = int | Fraction
"""A number, exactly; whole ones are always `int`."""

Kind = Literal["plain", "money", "percent", "word", "fixed", "time"]
"""What a mention is: the last two are never drawn again, and a `time` may not feed a chain either."""

_UNITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_TEENS = ("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen")
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
WORDS: dict[str, int] = {word: value for value, word in enumerate((*_UNITS, *_TEENS))}
WORDS |= {word: 10 * value for value, word in enumerate(_TENS, start=2)}
WORDS |= {
    f"{ten}-{unit}": 10 * t + u for t, ten in enumerate(_TENS, start=2) for u, unit in enumerate(_UNITS) if 0 < u < 10
}
SPELLED = {value: word for word, value in WORDS.items()}
"""Whole numbers below 100 → the word."""

_DIGITS = r"(?P<dollar>\$\s?)?(?P<digits>\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d*\.\d+|\d+)"
_WORD = rf"\b(?P<word>{'|'.join(sorted(WORDS, key=len, reverse=True))})\b"
_MENTION = re.compile(rf"(?<![\w.,]){_DIGITS}|{_WORD}", re.IGNORECASE)

_MONTH = r"(?:Jan|Feb|Mar|Apr|May|June?|July?|Aug|Sept?|Oct|Nov|Dec)(?:[a-z]*)"
_PARTS = r"(?:hal(?:f|ves)|thirds?|fourths?|quarters?|fifths?|sixths?|sevenths?|eighths?|ninths?|tenths?)"
_SHORT_UNITS = r"(?:kg|km|g|cm|mm|m|ml|mL|l|L|lbs?|oz|mph|mg|ft|GB|MB|min|hrs?)\b"
_AFTER: tuple[tuple[re.Pattern[str], Kind], ...] = (
    (re.compile(r"\s?:\s?\d(?!\d)"), "fixed"),
    (re.compile(r":\d\d|\s?[ap]\.?m\b|\s?o'clock", re.I), "time"),
    (re.compile(rf"\s(?:of\s)?{_MONTH}\b"), "time"),
    (re.compile(rf"\s?/\s?\d|[\s-]{_PARTS}\b|\s\d+/\d|\s(?:and\s)?(?:a|one)[\s-](?:half|quarter|third)\b", re.I), "fixed"),
    (re.compile(r"[\s-]?(?:hundreds?|thousands?|millions?|billions?|k)\b", re.I), "fixed"),
    (re.compile(r"\s?[-–x×]\s?\d|\s(?:to|or|by)\s\d|st\b|nd\b|rd\b|th\b", re.I), "fixed"),
    (re.compile(r"\s(?:(?:eyes|ears|hands|legs|wheels|fingers|toes|feet|arms|wings|corners|sides|paws)\b)", re.I), "fixed"),
    (re.compile(r"(?:\s?-?\s?dollar)?[\s-](?:bills?|notes?|coins?)\b|\s(?:degrees|out of|of every|in every)\b", re.I), "fixed"),
    (re.compile(rf"(?!{_SHORT_UNITS})[A-Za-z]"), "fixed"),
)  # fmt: skip
_BEFORE: tuple[tuple[re.Pattern[str], Kind], ...] = (
    (re.compile(rf"\b{_MONTH}\.?\s$"), "time"),
    (re.compile(r"\b(?:grade|chapter|level|room|route|highway|page|day|week|month|year|phase|season|number|size|type|track"
                r"|unit|act|version|part|volume|no\.|top|age|ages)\s$|#$", re.I), "fixed"),
    (re.compile(r"\d\s?[-–x×/:]\s?$|[\d½]\s(?:to|or|by)\s$|\d\s$|\b(?:between|from)\s\$?$", re.I), "fixed"),
)  # fmt: skip
_YEAR = re.compile(r"\b(?:in|since|year|by|until|from|of|during|before|after|and|to|through)\s(?:the\syear\s)?$", re.I)
_FACTS = {
    60: "minutes?|seconds?",
    24: "hours?",
    7: "days?",
    365: "days?",
    366: "days?",
    12: "months?|inches",
    52: "weeks?",
    16: "ounces?",
    100: "cents?|percent|centimeters?",
    1000: "grams?|meters?|milliliters?|millimeters?",
}
"""Numbers that a unit has made its own."""
_MOST: tuple[tuple[re.Pattern[str], int], ...] = (
    (re.compile(r"[\s-]days?(?:\s\w+)? (?:a|per|in a|each|every|of the|this|last) week"), 7),
    (re.compile(r"[\s-]times? (?:a|per|each|every) (?:day|week|month)"), 7),
    (re.compile(r"[\s-]hours?(?:\s\w+)? (?:a|per|in a|each|every|of the|that) (?:day|night|shift)|[\s-]hour (?:day|shift)"), 14),
    (re.compile(r"[\s-]hours?(?:\s\w+)? (?:a|per|in a|each|every|this|last|that) week"), 60),
    (re.compile(r"[\s-]minutes?(?:\s\w+)? (?:an|per|in an|each|every|of the) hour"), 59),
    (re.compile(r"[\s-]weeks? (?:a|per|in a|each|every|of the) month"), 4),
    (re.compile(r"[\s-]days? (?:a|per|in a|each|every|of the) month"), 28),
    (re.compile(r"[\s-]months? (?:a|per|in a|each|every|of the) year"), 12),
    (re.compile(r"[\s-]weeks? (?:a|per|in a|each|every|of the) year"), 50),
    (re.compile(r"[\s-]years?[\s-]old"), 95),
    (re.compile(r"[\s-](?:feet|foot)[\s-]tall"), 90),
    (re.compile(r"\s(?:times|people|friends|children|kids|siblings|sisters|brothers|daughters|sons)\b"), 60),
)  # fmt: skip
"""What follows a number → the most that makes sense of it."""
_NOUN = re.compile(
    r"(?:-|\s+)(?:of\s+(?:the\s+|her\s+|his\s+)?)?(?:(?:more|fewer|less|additional|other|extra|new|old)\s+)?([a-z]+)"
)


@dataclass(frozen=True, slots=True)
class Mention:
    """One number of a text.

    Attributes:
        start: Where its digits or its word begin (a `$` in front is no part of it).
        end: Where they end.
        text: They themselves.
        value: What they say; of a fraction or `2 million` the first number alone.
        kind: What it is.
        unit: The noun behind it, `$` for money: numbers with one unit are compared with each other.
        most: The largest number that makes sense in its place.
        article: `a` or `an` where one stands in front of it.
        cents: Whether it counts hundredths of a dollar.
    """

    start: int
    end: int
    text: str
    value: Value
    kind: Kind
    unit: str
    most: int
    article: str
    cents: bool

    @property
    def free(self) -> bool:
        """Whether another number may stand in its place."""
        return self.kind not in ("fixed", "time")


def find(text: str) -> list[Mention]:
    """Question → its mentions in order."""
    return [_mention(text, match) for match in _MENTION.finditer(text)]


def whole(value: Fraction) -> Value:
    """The same number, as an `int` where it is one."""
    return value.numerator if value.denominator == 1 else value


def article(number: str) -> str:
    """`a` or `an`, by how a number is said: an 8-hour day, an 11, an 18, an 80, an 800; a 10."""
    digits = number.replace(",", "").partition(".")[0]
    said = number.casefold().startswith(("eight", "eleven")) if not digits.isdigit() else _vowel(digits)
    return "an" if said else "a"


def _vowel(digits: str) -> bool:
    return digits.startswith("8") or (digits[:2] in ("11", "18") and len(digits) % 3 == 2)


def _mention(text: str, match: re.Match[str]) -> Mention:
    group = "word" if match["word"] else "digits"
    start, end = match.span(group)
    written = match[group]
    value = WORDS[written.casefold()] if group == "word" else whole(Fraction(written.replace(",", "")))
    before, after = text[:start].removesuffix(match["dollar"] or ""), text[end:]
    percent = re.match(r"\s?%|[\s-]percent\b", after)
    kind: Kind = "percent" if percent else "money" if match["dollar"] else "word" if group == "word" else "plain"
    kind = _fixed(before, after, written, value, kind) or kind
    noun = _NOUN.match(after)
    unit = "$" if match["dollar"] else "%" if percent else noun[1].removesuffix("s") if noun else ""
    most = next((limit for pattern, limit in _MOST if pattern.match(after)), 10**9)
    led = re.search(r"\b(an?)\s\$?$", before, re.I)
    cents = bool(re.match(r"[\s-]cents?\b|¢", after))
    return Mention(start, end, written, value, kind, unit, most, led[1].lower() if led else "", cents)


def _fixed(before: str, after: str, written: str, value: Value, kind: Kind) -> Kind | None:
    """`fixed` or `time` for a number that must stay; None for one that need not."""
    if re.search(r"\d:$", before) and len(written) == 2:
        return "time"  # the minutes of 10:30; 3:5 is a ratio
    for patterns, side, way in ((_AFTER, after, "match"), (_BEFORE, before, "search")):
        for pattern, found in patterns:
            if getattr(pattern, way)(side):
                return found
    if value <= 1 and kind not in ("money", "percent") and not isinstance(value, Fraction):
        return "fixed"
    if kind == "percent" and (isinstance(value, Fraction) or not 0 < value < 100):
        return "fixed"
    if kind == "plain" and isinstance(value, int) and 1900 <= value <= 2100 and _YEAR.search(before):
        return "time"
    own = _FACTS.get(value) if isinstance(value, int) and kind in ("plain", "word") else None
    if own and re.match(rf"[\s-](?:{own})\b", after):
        return "fixed"
    return "fixed" if value == 4 and re.match(r"\sweeks? (?:a|per|in a|each|every) month", after) else None
