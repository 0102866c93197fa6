r"""Question → prompt ids: the only file that knows chat templates, used by training and thinking alike.

The template is rendered once around a placeholder and cut there; what stands before and after is encoded once, the
user's text is encoded as plain text, and the three are joined by id. So no merge crosses a boundary and nothing a user
writes can become a control token.

    [ before | instruction \n question | closing of the turn, opening of the assistant's ]
                                         ^ question_at when it is a control token, else the question's last token
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ruplar.errors import UserError
from ruplar.model.settings import PromptConfig
from ruplar.types import Prompt

_HALF = re.compile(r"[\ud800-\udfff]")
_PLACEHOLDER = "RUPLARQUESTIONRUPLAR"
_DATE = "26 Jul 2024"
_PLAIN_BEFORE, _PLAIN_AFTER = "Question: ", "\nAnswer: "


@dataclass
class PlainText:
    """Text → ids that decode to the same text and hold no control token, whatever the text says.

    Attributes:
        tokenizer: Any Hugging Face tokenizer.
        controls: Ids a user may not write: special tokens, added tokens and the think markers.
    """

    tokenizer: Any
    controls: frozenset[int] = frozenset()

    def __post_init__(self):
        written = {self.tokenizer.convert_ids_to_tokens(i) for i in self.controls}
        # longest first, so that a marker inside a longer marker does not hide it
        self._pattern = re.compile("|".join(re.escape(w) for w in sorted(written, key=len, reverse=True)))

    def __call__(self, text: str) -> list[int]:
        """Ids of the text; a control token's name is broken in two pieces that mean nothing.

        Raises:
            UserError: The text holds half of a character (a lone surrogate), which no tokenizer can read.
        """
        half = _HALF.search(text)
        if half:
            raise UserError(
                f"the text holds half of a character (U+{ord(half[0]):04X}, a lone surrogate) after "
                f"'{text[max(0, half.start() - 20) : half.start()]}'. Remove it, or write the whole character."
            )
        out: list[int] = []
        waiting = [text]  # the next piece last; a text may hold thousands of names, so no recursion
        while waiting:
            piece = waiting.pop()
            ids = self._ids(piece) if piece else []
            if self.controls.isdisjoint(ids):
                out += ids
            else:
                waiting += reversed(self._broken(piece))
        return out

    def _ids(self, text: str) -> list[int]:
        fast = getattr(self.tokenizer, "backend_tokenizer", None)
        if fast is None:
            return self.tokenizer.encode(text, add_special_tokens=False)
        return fast.encode(
            text, add_special_tokens=False
        ).ids  # the same ids; the wrapper around it costs twice as much

    def _broken(self, text: str) -> list[str]:
        """The text cut in the middle of every control token's name; in its own middle where there is none to find."""
        if len(text) == 1:
            raise UserError(
                f"the single character {text!r} is a control token of this tokenizer and cannot be asked about."
            )
        found = self._pattern.finditer(text) if self._pattern.pattern else ()
        # a control written some other way (say, after normalisation) has no name to find
        cuts = [cut for m in found if 0 < (cut := (m.start() + m.end() + 1) // 2) < len(text)] or [len(text) // 2]
        return [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]


@dataclass
class PromptBuilder:
    """Builds every prompt of one backbone under one `PromptConfig`."""

    tokenizer: Any
    config: PromptConfig
    controls: frozenset[int]
    open_marker: str = "<think>"
    plain: PlainText = field(init=False)

    def __post_init__(self):
        self.plain = PlainText(self.tokenizer, self.controls)

    @cached_property
    def _frame(self) -> tuple[list[int], list[int]]:
        """Ids before and after the user's text."""
        if self.config.template == "plain":
            before, after = _PLAIN_BEFORE, _PLAIN_AFTER
        else:
            before, after = self._chat_frame()
        encode = lambda text: self.tokenizer.encode(text, add_special_tokens=False) if text else []  # noqa: E731
        return encode(before), encode(after)

    def _chat_frame(self) -> tuple[str, str]:
        if not getattr(self.tokenizer, "chat_template", None):
            raise UserError(
                "prompt.template: chat, but this tokenizer has no chat template. Set prompt.template: plain."
            )
        turn = [{"role": "user", "content": _PLACEHOLDER}]
        # some templates write today's date; a model must be asked as it was trained, whatever the day
        text = self.tokenizer.apply_chat_template(turn, tokenize=False, add_generation_prompt=True, date_string=_DATE)
        if text.count(_PLACEHOLDER) != 1:
            raise UserError(
                "prompt.template: the tokenizer's chat template does not show the user's text exactly once."
            )
        before, after = text.split(_PLACEHOLDER)
        # some templates open the thought themselves; the method's layout does that
        return before, after.split(self.open_marker)[0]

    def __call__(self, question: str) -> Prompt:
        """The prompt of one question, up to the opening of the assistant's turn."""
        before, after = self._frame
        middle = self.plain(
            "\n".join([*filter(None, [self.config.instruction]), *[question] * self.config.question_repeats])
        )
        if not question.strip():
            raise UserError("the question is empty.")
        end = len(before) + len(middle)
        closes = bool(after) and after[0] in self.controls
        return Prompt(tuple(before + middle + after), question_at=end if closes else end - 1)

    def answer(self, answer: str) -> list[int]:
        """The answer in the recipe's format, without the end token."""
        return self.plain(self.config.answer.replace("{answer}", answer))
