"""Question → the numbers its words bring in without a digit: a week has 7 days, a dozen is 12, a percentage is of 100.

What such a word stands for is a constant of the problem. It stays when the numbers of the text are drawn again, and so
does a number of the text that could be taken for it.
"""

from __future__ import annotations

import re
from fractions import Fraction

from ruplar.data.augment.mentions import Value, whole

_HALF, _QUARTER = Fraction(1, 2), Fraction(1, 4)

_RULES: tuple[tuple[str, str, tuple[Value, ...]], ...] = (
    (r"%|percent", "", (100, Fraction(1, 100))),
    (r"\bhal(?:f|ves)\b|½", "", (2, _HALF, Fraction(3, 2))),
    (r"\btwice\b|\bdoubl|\bcouple|\bpairs?\b|\bboth\b|round[\s-]?trip|\bback\b|\breturn|\btwins?\b|\bsecond\b", "", (2, 3)),
    (r"\btriple|\bthrice\b|\btrio|\btriplets", "", (3, 2)),
    (r"\bquadrupl", "", (4,)),
    (r"\bthirds?\b", "", (3, 2)),
    (r"\bfourths?\b|\bquarters?\b", "", (4, 3, _QUARTER, Fraction(3, 4), 25)),
    (r"\bfifths?\b", "", (5,)),
    (r"\bsixths?\b", "", (6,)),
    (r"\bsevenths?\b", "", (7,)),
    (r"\beighths?\b", "", (8,)),
    (r"\btenths?\b", "", (10,)),
    (r"\bdozen", "", (12, 6)),
    (r"\bscore\b|\btwenties", "", (20,)),
    (r"\bfortnight", "", (14, 2)),
    (r"\bdecade", "", (10,)),
    (r"\bcentury|\bcenturies", "", (100,)),
    (r"\bweeks?\b|\bweekly\b|\beach day\b|\bevery day\b|\bdaily\b|\bdays?\b", "", (7,)),
    (r"\bweekdays?\b|\bschool|\bwork|\bMonday", "", (5,)),
    (r"\bweekends?\b|\bSaturday|\bSunday", "", (2,)),
    (r"\bhour", r"\bday|\bnight", (24,)),
    (r"\bhour|\bmph\b", r"\bminute", (60, 30, 15, 45)),
    (r"\bminute", r"\bsecond", (60,)),
    (r"\byear|\bannual", r"\bmonth|\bannual", (12, 6)),
    (r"\byear|\bannual|\bmonth", r"\bweek", (52, 4, 26)),
    (r"\byear", r"\bday|\bdaily", (365, 366)),
    (r"\bmonth|\bJune|\bApril|\bSeptember|\bNovember", r"\bday|\bdaily|\bnight", (30, 31, 28)),
    (r"\bfeet\b|\bfoot\b|\bft\b", r"\binch", (12, 144)),
    (r"\byards?\b", r"\bfeet\b|\bfoot\b|\binch", (3, 36)),
    (r"\bmiles?\b", r"\bfeet\b|\byards?", (5280, 1760)),
    (r"\bpounds?\b|\blbs?\b", r"\bounce|\boz\b", (16,)),
    (r"\btons?\b", r"\bpound|\blbs?\b", (2000,)),
    (r"\bgallon|\bquart|\bpint|\bcups?\b", r"\bquart|\bpint|\bcups?\b|\bounce", (4, 2, 16, 8, 128)),
    (r"\bcents?\b|¢|\bpenn(?:y|ies)\b|\bquarters?\b|\bdimes?\b|\bnickels?\b", "", (100, Fraction(1, 100), 25, 10, 5)),
    (r"\bkilo|\bkm\b|\bkg\b|\blit(?:er|re)|\bml\b|\bmeters?\b|\bgrams?\b", "", (1000, 100)),
    (r"\bperimeter|\brectang|\bfence|\bborder|\bboundary", "", (2, 4)),
    (r"\bsquare\b|\bdivided into four", "", (4,)),
    (r"\btriang", "", (2, 3, _HALF)),
    (r"\bcubes?\b|\bdice\b|\bdie\b", "", (6, 12)),
    (r"\blegs?\b|\bpaws?\b|\bfeet\b|\bwheels?\b|\btires?\b|\bshoes?\b|\beyes?\b|\bears?\b|\bhands?\b", "", (2, 4, 6, 8, 3)),
    (r"\bfingers?\b|\btoes?\b", "", (10, 20, 5)),
    (r"\bhundreds?\b", "", (100,)),
    (r"\bthousands?\b|\d\s?k\b", "", (1000,)),
    (r"\bmillions?\b", "", (1_000_000,)),
    (r"\bbillions?\b", "", (1_000_000_000,)),
    (r"\baverage|\bmean\b", "", (2,)),
)  # fmt: skip
"""What must stand in the text, what else must, and the numbers that then need no digit."""

_COMPILED = tuple((re.compile(a, re.I), re.compile(b, re.I) if b else None, values) for a, b, values in _RULES)
_FRACTION = re.compile(r"(?<![\d.,])(?:(\d+)[\s-])?(\d+)\s?/\s?(\d+)(?![\d/])")
_SPELLED = re.compile(r"\b(one|two|three|four|five|six|seven|eight|nine)[\s-](half|halves|third|quarter|fourth|fifth|sixth|seventh|eighth|ninth|tenth)", re.I)  # fmt: skip
_TOPS = ("", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_BOTTOMS = {
    **{"half": 2, "halves": 2, "third": 3, "quarter": 4, "fourth": 4, "fifth": 5, "sixth": 6},
    **{"seventh": 7, "eighth": 8, "ninth": 9, "tenth": 10},
}
_DAYS = re.compile(r"\b(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)days?\b")


def implied(text: str) -> set[Value]:
    """Question → every number its words and its fractions bring in; 1 is always among them."""
    found: set[Value] = {1}
    for first, second, values in _COMPILED:
        if first.search(text) and (second is None or second.search(text)):
            found.update(values)
    for match in _FRACTION.finditer(text):
        found |= _of_fraction(int(match[2]), int(match[3]), int(match[1] or 0))
    for match in _SPELLED.finditer(text):
        found |= _of_fraction(_TOPS.index(match[1].lower()), _BOTTOMS[match[2].lower()], 0)
    days = len({day.removesuffix("s") for day in _DAYS.findall(text)})
    return found | ({days} if days > 1 else set())


def _of_fraction(top: int, bottom: int, whole_part: int) -> set[Value]:
    """What a chain may write for 2/5: 2, 5, the rest 3, and each over 5."""
    if not bottom:
        return set()
    parts = {top, bottom, abs(bottom - top), bottom + top}
    shares = {Fraction(part, bottom) for part in (top, abs(bottom - top), bottom + top)}
    shares |= {share + whole_part for share in shares} | {Fraction(1, bottom)}
    return {*parts, *({whole_part} if whole_part else ()), *(whole(share) for share in shares)} - {0}
