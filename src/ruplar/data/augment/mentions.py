"""Question → its numbers: position, unit, and whether the number can be replaced; and the numbers its words imply.

`$1,200.50`, `25%`, `.5`, `three`, `twenty-five` can be resampled. These cannot:

    half, twice, dozen, second          not mentions, but implied numbers
    1, one, 1/2, two-thirds, 2 million  too closely tied to the words around them
    10:30, 5 pm, May 4, 2019            dates and times
    day 3, 4x6, 10-12, iPhone 12, 3rd   labels, sizes, ranges
    7 days a week, 60 minutes, 4 legs   facts
"""

import re
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Literal

import yaml

Value = int | Fraction
"""An exact number; integers are always `int`."""

Kind = Literal["plain", "money", "percent", "word", "fixed", "time"]
"""Kind of a mention: the last two are never resampled, and a chain must not use a `time`."""

_UNITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_TEENS = ("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen")
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
WORDS: dict[str, int] = {word: value for value, word in enumerate((*_UNITS, *_TEENS))}
WORDS |= {word: 10 * value for value, word in enumerate(_TENS, start=2)}
WORDS |= {
    f"{ten}-{unit}": 10 * t + u for t, ten in enumerate(_TENS, start=2) for u, unit in enumerate(_UNITS) if 0 < u < 10
}
SPELLED = {value: word for word, value in WORDS.items()}
"""Integers below 100 → the word."""

_DIGITS = r"(?P<dollar>\$\s?)?(?P<digits>\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d*\.\d+|\d+)"
_WORD = rf"\b(?P<word>{'|'.join(sorted(WORDS, key=len, reverse=True))})\b"
_MENTION = re.compile(rf"(?<![\w.,]){_DIGITS}|{_WORD}", re.IGNORECASE)

_YEAR = re.compile(r"\b(?:in|since|year|by|until|from|of|during|before|after|and|to|through)\s(?:the\syear\s)?$", re.I)
_TABLES = yaml.safe_load(Path(__file__).with_name("mentions.yaml").read_text(encoding="utf-8"))
_AFTER, _BEFORE = (
    tuple((re.compile(pattern.format(**_TABLES["parts"])), kind) for pattern, kind in _TABLES[side])
    for side in ("after", "before")
)
_FACTS: dict[int, str] = _TABLES["facts"]
_MOST = tuple((re.compile(pattern), most) for pattern, most in _TABLES["most"])
"""Text after a number → its plausible maximum."""
_NOUN = re.compile(_TABLES["noun"])


@dataclass(frozen=True, slots=True)
class Mention:
    """One number of a text."""

    start: int  # start of its digits or its word, without a `$`
    end: int
    text: str
    value: Value  # their value; of a fraction or `2 million` only the first number
    kind: Kind
    unit: str  # the noun after it, `$` for money; numbers with the same unit are compared with each other
    most: int
    article: str  # `a` or `an` if it follows one, else ""
    cents: bool

    @property
    def free(self) -> bool:
        """Whether it can be resampled."""
        return self.kind not in ("fixed", "time")


def find(text: str) -> list[Mention]:
    """Question → its mentions in order."""
    return [_mention(text, match) for match in _MENTION.finditer(text)]


def whole(value: Fraction) -> Value:
    """Return the number as an `int` if it is an integer."""
    return value.numerator if value.denominator == 1 else value


def article(number: str) -> str:
    """Return the article of a number by its pronunciation: an 8-hour day, an 11, an 18, an 80, an 800; a 10."""
    digits = number.replace(",", "").partition(".")[0]
    if not digits.isdigit():
        return "an" if number.casefold().startswith(("eight", "eleven")) else "a"
    return "an" if digits.startswith("8") or (digits[:2] in ("11", "18") and len(digits) % 3 == 2) else "a"


def _mention(text: str, match: re.Match[str]) -> Mention:
    group = "word" if match["word"] else "digits"
    start, end = match.span(group)
    written = match[group]
    value = WORDS[written.casefold()] if group == "word" else whole(Fraction(written.replace(",", "")))
    # 60 characters are more than any pattern before a number can match
    before, after = text[max(0, start - 60) : start].removesuffix(match["dollar"] or ""), text[end:]
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


_IMPLIED = tuple(
    (re.compile(first, re.I), re.compile(second, re.I), tuple(whole(Fraction(value)) for value in values))
    for first, second, values in _TABLES["implied"]
)
_FRACTION = re.compile(r"(?<![\d.,])(?:(\d+)[\s-])?(\d+)\s?/\s?(\d+)(?![\d/])")
_SPELLED = re.compile(r"\b(one|two|three|four|five|six|seven|eight|nine)[\s-](half|halves|third|quarter|fourth|fifth|sixth|seventh|eighth|ninth|tenth)", re.I)  # fmt: skip
_BOTTOMS = {
    **{"half": 2, "halves": 2, "third": 3, "quarter": 4, "fourth": 4, "fifth": 5, "sixth": 6},
    **{"seventh": 7, "eighth": 8, "ninth": 9, "tenth": 10},
}
_DAYS = re.compile(r"\b(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)days?\b")


def implied(text: str) -> set[Value]:
    """Question → every number that its words and fractions imply (a week has 7 days, a dozen is 12); always includes 1.

    These are constants of the problem: they stay when numbers are resampled, and so do equal numbers of the text.
    """
    found: set[Value] = {1}
    for first, second, values in _IMPLIED:
        if first.search(text) and second.search(text):
            found.update(values)
    for match in _FRACTION.finditer(text):
        found |= _of_fraction(int(match[2]), int(match[3]), int(match[1] or 0))
    for match in _SPELLED.finditer(text):
        found |= _of_fraction(WORDS[match[1].lower()], _BOTTOMS[match[2].lower()], 0)
    days = len({day.removesuffix("s") for day in _DAYS.findall(text)})
    return found | ({days} if days > 1 else set())


def _of_fraction(top: int, bottom: int, whole_part: int) -> set[Value]:
    """Return the numbers a chain may use for 2/5: 2, 5, the remainder 3, and each divided by 5."""
    if not bottom:
        return set()
    parts = {top, bottom, abs(bottom - top), bottom + top}
    shares = {Fraction(part, bottom) for part in (top, abs(bottom - top), bottom + top)}
    shares |= {share + whole_part for share in shares} | {Fraction(1, bottom)}
    return {*parts, *({whole_part} if whole_part else ()), *(whole(share) for share in shares)} - {0}
