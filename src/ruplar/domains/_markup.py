r"""Text → its marked pieces: steps inside `<<…>>`, and the answer inside the last `\boxed{…}` or after the last `####`.

All functions take time linear in the length of the text.
"""

from collections.abc import Callable, Iterator

_BOX = r"\boxed{"


def steps(chain: str) -> list[str]:
    """Return the text inside each `<<…>>`, up to the first `>>`, without blank ones; a single `>` inside is part of it."""
    return [step for start, end in _marked(chain) if (step := chain[start + 2 : end - 2].strip())]


def without_steps(text: str) -> str:
    """Return the text without its `<<…>>`."""
    out, at = [], 0
    for start, end in _marked(text):
        out.append(text[at:start])
        at = end
    return "".join((*out, text[at:]))


def _marked(text: str) -> Iterator[tuple[int, int]]:
    """Yield start and end of each `<<…>>`, marks included; of `<<<` the last two open a step."""
    start = text.find("<<")
    while start >= 0:
        while text[start + 2 : start + 3] == "<":
            start += 1
        end = text.find(">>", start + 2)
        if end < 0:
            return
        yield start, end + 2
        start = text.find("<<", end + 2)


def boxed(text: str) -> str | None:
    r"""Return the content of the last `\boxed{…}`, inner braces included; None without a box or if the last is not closed.

    A box that is not closed means the text was cut off inside its answer; an earlier box is then not the answer.
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
    """Return the rest of the line after the last `####`, stripped; None if there is no `####`."""
    _, mark, rest = text.rpartition("####")
    lines = rest.strip().splitlines()
    return (lines[0].strip() if lines else "") if mark else None


def extract(text: str, is_answer: Callable[[str], bool]) -> str | None:
    r"""Return the answer in generated text as written, or None; nothing is guessed.

    It is the content of the last `\boxed{…}`; without a box, what follows the last `####`; without either, the whole text if
    it is an answer, with or without a leading `=`. An empty or unclosed box is None.
    """
    if _BOX in text:
        return boxed(text) or None
    if "####" in text:
        return after_hashes(text) or None
    bare = text.strip().removeprefix("=").strip()
    return bare if is_answer(bare) else None
