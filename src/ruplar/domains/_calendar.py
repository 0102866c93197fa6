"""Text → date, and date and offset → date, for reading, checking and scoring dates.

The calendar is that of `datetime.date`. Days beyond the end of a month are moved to its end: Jan 31 + 1 month is Feb 28 or
29, and Feb 29 - 1 year is Feb 28. A date has no time of day, so an offset in hours that is not a whole number of days has
two results.
"""

import calendar
import re
from datetime import date, timedelta

MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

_NAMES = "January|Feb(?:ruary|urary)|March|April|May|June|July|August|September|October|November|December"
MONTH = rf"(?:{_NAMES}|Sept|{'|'.join(MONTHS)})(?![a-z])\.?"
"""Pattern of a month's name, full or short; the misspelling `Feburary` occurs in Date Understanding."""

_ORDINAL = r"(?:st|nd|rd|th)?"
DATE = (
    r"(?i:"
    rf"(?<![A-Za-z])(?P<month>{MONTH}) ?(?P<day>[0-9]{{1,2}}){_ORDINAL},? ?(?P<year>[0-9]{{4}})(?![0-9])"
    rf"|(?<![0-9/])(?P<day2>[0-9]{{1,2}}){_ORDINAL} (?:of )?(?P<month2>{MONTH}),? (?P<year2>[0-9]{{4}})(?![0-9])"
    r"|(?<![0-9/])(?P<month3>[0-9]{1,2})/(?P<day3>[0-9]{1,2})/(?P<year3>[0-9]{4})(?![0-9/])"
    r"|(?<![0-9-])(?P<year4>[0-9]{4})-(?P<month4>[0-9]{2})-(?P<day4>[0-9]{2})(?![0-9-])"
    r")"
)
"""Pattern of a date: `Jul 8, 1971`, `8 July 1971`, `JULY 8TH, 1971`, `07/08/1971` (month first), `1971-07-08`."""

_DATE = re.compile(DATE)
_UNITS: dict[str, tuple[str, int]] = {
    "hour": ("hours", 1),
    "day": ("days", 1),
    "week": ("days", 7),
    "fortnight": ("days", 14),
    "month": ("months", 1),
    "quarter": ("months", 3),
    "year": ("months", 12),
    "decade": ("months", 120),
    "century": ("months", 1200),
    "centurie": ("months", 1200),
}
UNIT = r"(?:hour|day|week|fortnight|month|quarter|year|decade|centurie|century)s?"
"""Pattern of a unit of time."""

_COUNTS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
COUNT = rf"(?:[0-9]{{1,5}}|an?|{'|'.join(_COUNTS)})"
"""Pattern of a count: digits, `a`, `one` to `twelve`."""


def read(text: str) -> date | None:
    """Text that is just a date → the date; None if it is anything else, or the day does not exist."""
    found = _DATE.fullmatch(text.strip().rstrip("."))
    return of_match(found) if found else None


def of_match(found: re.Match[str]) -> date | None:
    """A match of `DATE` → the date; None for one such as 12/32/1929."""
    parts = {name[:-1] if name[-1].isdigit() else name: text for name, text in found.groupdict().items() if text}
    month = parts["month"]
    try:
        return date(int(parts["year"]), int(month) if month.isdigit() else month_of(month), int(parts["day"]))
    except ValueError:
        return None


def month_of(name: str) -> int:
    """`Sept.` → 9."""
    return MONTHS.index(name[:3].title()) + 1


def count_of(text: str) -> int:
    """`24`, `a`, `ten` → 24, 1, 10."""
    if text.isdigit():
        return int(text)
    return 1 if text.lower() in ("a", "an") else _COUNTS.index(text.lower())


def show(day: date) -> str:
    """Date → its form in chains: `Jul 8, 1971`."""
    return f"{MONTHS[day.month - 1]} {day.day}, {day.year}"


def last_day(year: int, month: int) -> date:
    return date(year, month, calendar.monthrange(year, month)[1])


def weekday(day: date) -> str:
    """Return the full name of the weekday."""
    return WEEKDAYS[day.weekday()]


def shift(day: date, count: int, unit: str) -> tuple[date, ...]:
    """A date and an offset, negative for the past → the resulting date, or two dates if hours leave it open.

    36 hours before a time on Jan 1 is on Dec 30, if it was before noon, or on Dec 31; the one counted from midnight comes
    first.
    """
    kind, size = _UNITS[unit.lower().removesuffix("s")]
    amount = count * size
    try:
        if kind == "days":
            return (day + timedelta(days=amount),)
        if kind == "hours":
            whole = amount // 24
            return tuple(day + timedelta(days=d) for d in ((whole, whole + 1) if amount % 24 else (whole,)))
        year, month = divmod(day.year * 12 + day.month - 1 + amount, 12)
        return (date(year, month + 1, min(day.day, last_day(year, month + 1).day)),)
    except OverflowError as error:
        raise ValueError(str(error)) from error
