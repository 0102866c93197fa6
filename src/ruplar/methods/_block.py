"""Several latents a forward: the fixed tokens off which they are read, and how many blocks a thought has."""

from __future__ import annotations

from ruplar.errors import UserError
from ruplar.types import Encode

_LETTERS = "abcdefghijklmno"


def asking(wide: int, encode: Encode) -> list[int]:
    """The tokens behind `<think>` and every block: one less than a block has latents, each another letter.

    Raises:
        UserError: The tokenizer does not write a letter as one token.
    """
    found = [encode(letter) for letter in _LETTERS[: wide - 1]]
    if any(len(ids) != 1 for ids in found):
        raise UserError("method.block: this tokenizer does not write every letter as one token; set it to 1.")
    return [ids[0] for ids in found]


def count(latents: int, wide: int) -> int:
    """How many blocks so many latents are.

    Raises:
        UserError: They are no whole number of blocks.
    """
    if latents % wide:
        raise UserError(
            f"method.block is {wide}, but a chain has {latents} latents, no multiple of it. Cut chains into blocks of that "
            f"width (spans: {{name: ahead, width: {wide}}}), or set method.block: 1."
        )
    return latents // wide
