r"""Tokenizer and prompt settings → `PromptFormat`: marker ids and the one way to build a prompt. No weights are needed.

The chat template is rendered once around a placeholder and split there. The text before and after is encoded once, the
user's text is encoded as plain text, and the ids are concatenated. So no BPE merge crosses a boundary and nothing a user
writes can become a control token. Training, evaluation and serving all use this file.

    [ before | instruction \n question | closing of the turn, opening of the assistant's ]
                                         ^ question_at when it is a control token, else the question's last token
"""

import re
from array import array
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ruplar.errors import UserError
from ruplar.model.number_tokens import with_number_tokens
from ruplar.model.settings import BackboneConfig, PromptConfig
from ruplar.model.tokenizers import load_tokenizer
from ruplar.types import Markers, Prompt

OPEN, CLOSE = "<think>", "</think>"
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_PLACEHOLDER = "RUPLARQUESTIONRUPLAR"
_DATE = "26 Jul 2024"
_PLAIN_BEFORE, _PLAIN_AFTER = "Question: ", "\nAnswer: "
_CACHED_TEXTS = 400_000
"""Maximum number of texts whose ids are cached: in each data worker about 300 MB of questions, less of steps."""


@dataclass
class PlainText:
    """Text → ids that decode to the same text and contain no control token, whatever the text is."""

    tokenizer: Any
    # ids a user must not be able to write: special tokens, added tokens and the markers
    controls: frozenset[int] = frozenset()
    # ids of texts encoded before, for training data that is encoded again in every epoch; None: not cached
    cached: dict[str, array] | None = None

    def __post_init__(self):
        written = {self.tokenizer.convert_ids_to_tokens(i) for i in self.controls}
        # longest first, so that a marker inside a longer marker does not hide it
        self._pattern = re.compile("|".join(re.escape(w) for w in sorted(written, key=len, reverse=True)))

    def __call__(self, text: str) -> list[int]:
        """Encode the text; the name of a control token is split into two harmless pieces."""
        half = _SURROGATE.search(text)
        if half:
            raise UserError(
                f"the text contains half of a character (U+{ord(half[0]):04X}, a lone surrogate) after "
                f"'{text[max(0, half.start() - 20) : half.start()]}'. Remove it, or write the whole character."
            )
        out: list[int] = []
        pending = [text]  # a stack, because a text may contain thousands of names; the next piece is last
        while pending:
            piece = pending.pop()
            ids = self._ids(piece) if piece else []
            if self.controls.isdisjoint(ids):
                out += ids
            else:
                pending += reversed(self._split_controls(piece))
        return out

    def _ids(self, text: str) -> list[int]:
        if self.cached is None:
            return self._encoded(text)
        if (known := self.cached.get(text)) is not None:
            return known.tolist()
        ids = self._encoded(text)
        if len(self.cached) < _CACHED_TEXTS and len(text) < 1000:  # pages of prose would take gigabytes
            self.cached[text] = array("i", ids)
        return ids

    def _encoded(self, text: str) -> list[int]:
        fast = getattr(self.tokenizer, "backend_tokenizer", None)
        if fast is None:
            return self.tokenizer.encode(text, add_special_tokens=False)
        if fast.truncation or fast.padding:  # left over from a call of the tokenizer, or saved with it
            fast.no_truncation()
            fast.no_padding()
        return fast.encode(text, add_special_tokens=False).ids  # same ids, half the time of the wrapper

    def _split_controls(self, text: str) -> list[str]:
        """Split the text in the middle of every control token's name, or in its own middle if no name is found."""
        if len(text) == 1:
            raise UserError(f"the single character {text!r} is a control token of this tokenizer; leave it out.")
        found = self._pattern.finditer(text) if self._pattern.pattern else ()
        # a control token may be written differently (e.g. before normalisation), so its name may not occur
        cuts = [cut for m in found if 0 < (cut := (m.start() + m.end() + 1) // 2) < len(text)] or [len(text) // 2]
        return [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]


@dataclass
class PromptBuilder:
    """Build every prompt of one tokenizer under one `PromptConfig`."""

    tokenizer: Any
    config: PromptConfig
    controls: frozenset[int]
    plain: PlainText = field(init=False)

    def __post_init__(self):
        self.plain = PlainText(self.tokenizer, self.controls)

    @cached_property
    def frame(self) -> tuple[str, str]:
        """Return what is before and after the user's text."""
        return (_PLAIN_BEFORE, _PLAIN_AFTER) if self.config.template == "plain" else self._chat_frame()

    @cached_property
    def _frame(self) -> tuple[list[int], list[int]]:
        before, after = self.frame
        encode = lambda text: self.tokenizer.encode(text, add_special_tokens=False) if text else []  # noqa: E731
        return encode(before), encode(after)

    def user_text(self, question: str) -> str:
        """Return the question with instruction and repeats."""
        return "\n".join([*filter(None, [self.config.instruction]), *[question] * self.config.question_repeats])

    def _chat_frame(self) -> tuple[str, str]:
        if not getattr(self.tokenizer, "chat_template", None):
            raise UserError("prompt.template: chat, but this tokenizer has none. Set prompt.template: plain.")
        turn = [{"role": "user", "content": _PLACEHOLDER}]
        # some templates write today's date; the prompt must be the one the model was trained on
        try:
            text = self.tokenizer.apply_chat_template(
                turn, tokenize=False, add_generation_prompt=True, date_string=_DATE, training_frame=True
            )
        except Exception as error:  # a template is a program; it can fail in any way
            raise UserError(
                f"prompt.template: the tokenizer's chat template fails: {str(error)[:200]}. Set prompt.template: plain."
            ) from error
        if text.count(_PLACEHOLDER) != 1:
            raise UserError(
                "prompt.template: the tokenizer's chat template does not contain the user's text exactly once. Set "
                "prompt.template: plain."
            )
        before, after = text.split(_PLACEHOLDER)
        # some templates open the thought themselves; here the method does that
        return before, after.split(OPEN)[0]

    def __call__(self, question: str) -> Prompt:
        """Build the prompt of one question, up to the opening of the assistant's turn."""
        before, after = self._frame
        middle = self.plain(self.user_text(question))
        if not question.strip():
            raise UserError("the question is empty.")
        end = len(before) + len(middle)
        closes = bool(after) and after[0] in self.controls
        return Prompt(tuple(before + middle + after), question_at=end if closes else end - 1)

    def answer(self, answer: str) -> list[int]:
        return self.plain(self.config.answer.replace("{answer}", answer))


@dataclass(frozen=True)
class PromptFormat:
    """A tokenizer with marker tokens, and the prompts it builds."""

    tokenizer: Any  # the tokenizer, markers included
    prompt: PromptBuilder  # question → ids
    markers: Markers  # ids of `<think>`, `</think>` and the end of the answer
    pad_id: int  # padding id; never attended to
    added: tuple[int, ...]  # ids of the markers that the tokenizer did not have


def named_tokenizer(config: BackboneConfig) -> Any:
    """Load the tokenizer of `backbone.name`, with number tokens if the recipe adds them."""
    tokenizer = load_tokenizer(config.name)
    return with_number_tokens(tokenizer) if config.number_tokens else tokenizer


def prompt_format_of(tokenizer: Any, prompt: PromptConfig) -> PromptFormat:
    """Find or add the marker tokens and determine the pad and end ids."""
    added = [token for token in (OPEN, CLOSE) if _single_id(tokenizer, token) is None]
    if added:
        tokenizer.add_tokens(added, special_tokens=True)
    think_id, end_think_id = (tokenizer.convert_tokens_to_ids(t) for t in (OPEN, CLOSE))
    eos_id = tokenizer.eos_token_id
    if eos_id is None:
        raise UserError("the tokenizer has no end token (eos_token); set one in its tokenizer_config.json.")
    pad_id = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else eos_id
    controls = frozenset(tokenizer.all_special_ids) | frozenset(tokenizer.get_added_vocab().values())
    builder = PromptBuilder(tokenizer, prompt, controls | {think_id, end_think_id})
    ids = tuple(i for t, i in ((OPEN, think_id), (CLOSE, end_think_id)) if t in added)
    return PromptFormat(tokenizer, builder, Markers(think_id, end_think_id, eos_id), pad_id, ids)


def _single_id(tokenizer: Any, token: str) -> int | None:
    """Return the id of a token that the tokenizer encodes as one piece, else None."""
    ids = tokenizer.encode(token, add_special_tokens=False)
    return ids[0] if len(ids) == 1 and tokenizer.convert_ids_to_tokens(ids[0]) == token else None
