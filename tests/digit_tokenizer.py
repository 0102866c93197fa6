"""A tokenizer whose tokens can be worked out in one's head."""

import re


class DigitTokenizer:
    """Digits in groups from the left, as Llama-3 has them; any other character by itself; ids count up as pieces appear."""

    def __init__(self, group: int):
        self.pattern, self.known = re.compile(rf"[0-9]{{1,{group}}}|\S"), []

    def encode(self, text: str) -> list[int]:
        found = self.pattern.findall(text)
        self.known += [piece for piece in dict.fromkeys(found) if piece not in self.known]
        return [self.known.index(piece) for piece in found]

    def decode(self, ids, **_) -> str:
        return "".join(self.known[i] for i in ids)
