r"""Text → the piece of it that is marked as the answer: inside the last `\boxed{…}`, or behind the last `####`."""

from __future__ import annotations

_BOX = r"\boxed{"


def boxed(text: str) -> str | None:
    r"""What the last `\boxed{…}` holds, braces inside it kept; None when there is no box or the last one never closes.

    An open box means that the text was cut off inside its answer; an earlier box is then not the answer.
    """
    start = text.rfind(_BOX)
    if start < 0:
        return None
    start += len(_BOX)
    depth = 1
    for at in range(start, len(text)):
        if text[at] == "{":
            depth += 1
        elif text[at] == "}":
            depth -= 1
            if depth == 0:
                return text[start:at].strip()
    return None


def after_hashes(text: str) -> str | None:
    """The rest of the line behind the last `####`, spaces removed; None when there is no `####`."""
    _, mark, rest = text.rpartition("####")
    lines = rest.strip().splitlines()
    return (lines[0].strip() if lines else "") if mark else None
