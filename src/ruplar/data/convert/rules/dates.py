"""Questions about dates → chain: which day it is today by what is told, then the offset that is asked for."""

from __future__ import annotations

from datetime import date

from ruplar.domains import _calendar, _date_questions


def from_prose(question: str, reasoning: str) -> str | None:
    """`<<Jul 8, 1972 - 1 year = Jul 8, 1971>>`; None where the question is told or asked in a way that is not known.

    A question that leaves two days open for today is not converted.
    """
    told, asks = _date_questions.divide(question)
    days, offset = _date_questions.today(told), _date_questions.asked(asks)
    if len(days) != 1 or offset is None:
        return None
    [today], (count, unit) = days, offset
    if not count:
        return f"<<{_calendar.show(today)} = {today:%m/%d/%Y}>>" if today.year >= 1000 else None
    try:
        reached = _calendar.shift(today, count, unit)
    except ValueError:
        return None
    return f"<<{_step(today, count, unit, reached[0])}>>" if len(reached) == 1 else None


def _step(today: date, count: int, unit: str, reached: date) -> str:
    unit = unit.removesuffix("s") + ("s" if abs(count) != 1 else "")
    return f"{_calendar.show(today)} {'+' if count > 0 else '-'} {abs(count)} {unit} = {_calendar.show(reached)}"
