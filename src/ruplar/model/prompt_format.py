"""Tokenizer and prompt settings → `Wording`: how a backbone writes questions, markers and ends. No weights are needed.

Chains are encoded with this alone, so that they can be prepared where the model itself is not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ruplar.errors import UserError
from ruplar.model.number_tokens import with_number_tokens
from ruplar.model.prompt import PromptBuilder
from ruplar.model.settings import BackboneConfig, PromptConfig
from ruplar.model.tokenizers import load_tokenizer

OPEN, CLOSE = "<think>", "</think>"


@dataclass(frozen=True)
class PromptFormat:
    """A tokenizer with its markers, and the one way to build a prompt.

    Attributes:
        tokenizer: Markers included.
        prompt: Question → ids, for training and thinking alike.
        think_id: Id of `<think>`.
        end_think_id: Id of `</think>`, the halt token.
        eos_id: Id that ends an answer.
        pad_id: Id that fills empty places; never attended to.
        added: Ids of the markers that the tokenizer did not have.
    """

    tokenizer: Any
    prompt: PromptBuilder
    think_id: int
    end_think_id: int
    eos_id: int
    pad_id: int
    added: tuple[int, ...]


def plain_tokenizer(config: BackboneConfig) -> Any:
    """The tokenizer of the named backbone, with number tokens where the recipe adds them."""
    tokenizer = load_tokenizer(config.name)
    return with_number_tokens(tokenizer) if config.number_tokens else tokenizer


def prompt_format_of(tokenizer: Any, prompt: PromptConfig) -> PromptFormat:
    """Markers found or added, pad and end ids settled.

    Args:
        tokenizer: Markers are added to it.
        prompt: How questions are put.

    Raises:
        UserError: The tokenizer names no end token.
    """
    added = [token for token in (OPEN, CLOSE) if _single_id(tokenizer, token) is None]
    if added:
        tokenizer.add_tokens(added, special_tokens=True)
    think_id, end_think_id = (tokenizer.convert_tokens_to_ids(t) for t in (OPEN, CLOSE))
    eos_id = tokenizer.eos_token_id
    if eos_id is None:
        raise UserError("the tokenizer names no end token (eos_token); set one in its tokenizer_config.json.")
    pad_id = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else eos_id
    controls = frozenset(tokenizer.all_special_ids) | frozenset(tokenizer.get_added_vocab().values())
    builder = PromptBuilder(tokenizer, prompt, controls | {think_id, end_think_id})
    ids = tuple(i for t, i in ((OPEN, think_id), (CLOSE, end_think_id)) if t in added)
    return PromptFormat(tokenizer, builder, think_id, end_think_id, eos_id, pad_id, ids)


def _single_id(tokenizer: Any, token: str) -> int | None:
    """The id of a token the tokenizer knows as one piece, else None."""
    ids = tokenizer.encode(token, add_special_tokens=False)
    return ids[0] if len(ids) == 1 and tokenizer.convert_ids_to_tokens(ids[0]) == token else None
