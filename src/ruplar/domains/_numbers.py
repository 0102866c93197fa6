"""Text of a number → exact rational, for reading, checking and scoring arithmetic.

Numbers are read as written, without floats: `13.0` is 13, `.5` is 1/2, `2.0107e-06` is 20107/10**10.
"""

import re
from fractions import Fraction

NUMBER = r"(?:(?:[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]+)(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3}(?![0-9]))?"
"""Pattern of an unsigned number: `7`, `1.20`, `.5`, `1,200`, `2e-06`. `1,20` is not a number."""

DASHES = str.maketrans({"−": "-", "–": "-", "—": "-"})
"""Dashes that stand for a minus sign."""

# longer literals are never meant, and Python does not convert more than about 4,300 digits
_LONGEST = 400

_PLAIN = re.compile(rf"(?P<sign>[+-]?)\s*[$€£]?\s*(?P<sign2>-?)(?P<number>{NUMBER})\.?")
_RATIO = re.compile(rf"(?P<sign>-?)\s*(?P<over>{NUMBER})\s*/\s*(?P<under>{NUMBER})")
_LATEX_RATIO = re.compile(r"\\[dt]?frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}")
_UNIT = re.compile(r"\\(?:text|mathrm|textbf)\s*\{[^{}]*\}|\\[a-zA-Z]+|[^\W0-9_]+|[%$€£°\\{}]")
_WITH_UNIT = re.compile(
    rf"(?P<number>[+-]?\s*[$€£]?\s*-?{NUMBER})(?P<unit>(?:\s+[^\W\d_](?:[^\W\d_]|['’/²³°-])*){{1,3}})\.?"
)
_COUNTING = re.compile(
    r"\b(?:and|or|to|of|half|halves|thirds?|quarters?|(?:four|fif|six|seven|eigh|nin|ten|hundred|thousand)ths?|dozens?|score|gross"
    r"|(?:eleven|twelf|twentie)ths?|tens?|(?:hundred|thousand|million|billion|trillion)s?|k|lakh|crore|percent(?:s|age)?|per cent|point|times|x|more|less|fewer|over"
    r"|under|below|minus|negative|e|am|pm|noon|midnight|bce?|power|root|factorial)\b|^\s*(?:squared|cubed)\b"
)
"""Words after a number that are not a unit but change its value; 49 feet squared is an area, 7 squared is 49."""


def literal(text: str) -> Fraction | None:
    """One unsigned or signed number, e.g. `-1,200.50` → Fraction; None if the text is anything else."""
    if len(text) > _LONGEST or not re.fullmatch(rf"-?{NUMBER}", text):
        return None
    return Fraction(text.replace(",", ""))


def decimals(text: str) -> int:
    """Digits after the point of a number as written: `3.50` → 2, `7` → 0, `2e-06` → 6."""
    mantissa, _, exponent = text.lower().partition("e")
    return max(0, len(mantissa.partition(".")[2]) - int(exponent or 0))


def decimal(value: int | Fraction, places: int = 0, most: int = 4) -> str | None:
    """Value ≥ 0 → its exact decimal, with at least so many `places`: `24`, `0.25`, `96.00`; None if it needs over `most`."""
    for short in range(most + 1):
        scaled = value * 10**short
        if scaled.denominator == 1:
            digits = str(scaled.numerator).rjust(short + 1, "0")
            at = len(digits) - short
            rest = digits[at:].ljust(places, "0")
            return f"{digits[:at]}.{rest}" if rest else digits
    return None


def number(text: str) -> Fraction | None:
    r"""An answer that is just a number → Fraction; None if it is not.

    Dollar signs, thousands separators, a trailing point and spaces around sign and slash do not matter, so `$1,200.00`,
    `1200` and `1200.` are equal. Fractions are read (`3/4`, `\frac{3}{4}`). Percent signs and units are not removed:
    whether `25%` is 25 is up to scoring. Digits separated by a space are not a number.
    """
    text = text.strip().translate(DASHES).replace(r"\$", "$").replace(r"\!", "")
    text = _LATEX_RATIO.sub(r" \1/\2 ", text).strip()  # 1\frac{1}{2} is not 11/2
    if len(text) > _LONGEST:
        return None
    if plain := _PLAIN.fullmatch(text):
        if plain["sign"] and plain["sign2"]:
            return None
        value = Fraction(plain["number"].replace(",", ""))
        return -value if "-" in plain["sign"] + plain["sign2"] else value
    if ratio := _RATIO.fullmatch(text):
        over, under = (Fraction(ratio[name].replace(",", "")) for name in ("over", "under"))
        if under:
            return (-over if ratio["sign"] else over) / under
    return None


def number_without_units(text: str) -> Fraction | None:
    r"""As `number`, after removing words, percent and currency signs: `\$18\text{ per day}` and `25%` → 18 and 25."""
    if (value := number(text)) is not None:
        return value
    return number(_UNIT.sub(" ", _LATEX_RATIO.sub(r" \1/\2 ", text)).rstrip(" ."))


def without_unit(text: str) -> str:
    """Remove a unit of one to three words from a number: `12 apples` → `12`, `$5 per hour` → `$5`.

    The text is returned unchanged if the words change the number (`3 dozen`, `5 and a half`, `25 percent`).
    """
    found = _WITH_UNIT.fullmatch(text.strip().translate(DASHES)) if len(text) <= _LONGEST else None
    if found is None or _COUNTING.search(found["unit"].lower()):
        return text
    return found["number"].strip()


def show(value: Fraction) -> str:
    """Value → text for a message: `7`, `0.35`, or `about 3.3333` if no short decimal is exact."""
    if (text := decimal(abs(value), most=6)) is not None:
        return f"-{text}" if value < 0 else text
    return f"about {float(value):.4f}" if abs(value) < 10**9 else f"about {int(value)}"
