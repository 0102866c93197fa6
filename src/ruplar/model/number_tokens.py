r"""Tokenizer → the same with a token for every group of two or three digits, like Llama-3's: 1234 → 123, 4.

With digit tokens a prior sees a result such as 216 as a bag of 2, 1 and 6; with these tokens it is one token with one row.
Numbers are split from the left into groups of at most three ASCII digits; all other text is split as before, including
digits of other scripts. The tokenizer's own JSON is extended (vocabulary, merges, pre-tokenizer), so a saved folder is a
plain Hugging Face tokenizer.

    merges  1 2 → 12    12 3 → 123    1 23 → 123      any order of merging ends in one token
"""

import json
from collections.abc import Iterable
from typing import Any

from ruplar.errors import UserError

GROUPS = tuple(f"{number:0{digits}d}" for digits in (2, 3) for number in range(10**digits))
"""Every group of two or three digits, in the order of their ids."""

_SETTING = "backbone.number_tokens"
_GROUPED = r"[0-9]{1,3}|\p{N}"
_CUT = {"type": "Split", "pattern": {"Regex": _GROUPED}, "behavior": "Isolated", "invert": False}
_SAMPLE = "Don't stop;  it's naïve…\n\n\tYes — ½ of “that” is x*y=(z) ٣٤٥ 日本語 <b>."
_OPTIONS = ("model_max_length", "padding_side", "truncation_side", "clean_up_tokenization_spaces", "model_input_names")


def number_ids(tokenizer: Any) -> list[int]:
    if not _groups(tokenizer):
        raise UserError(f"{_SETTING}: this tokenizer has no tokens for groups of digits.")
    return [tokenizer.convert_tokens_to_ids(group) for group in GROUPS]


def with_number_tokens(tokenizer: Any) -> Any:
    """Return a new tokenizer with the groups added after all other ids."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        raise UserError(f"{_SETTING}: {_kind(tokenizer)} is not a fast tokenizer (tokenizer.json). Remove it.")
    if _groups(tokenizer):
        raise UserError(
            f"{_SETTING}: this tokenizer already encodes every group of up to three digits as one token (216 is one), so "
            "there is nothing to add. Remove the setting."
        )
    content = json.loads(backend.to_str())
    _refuse_other_kinds(content, tokenizer)
    _add_tokens(content, tokenizer)
    content["pre_tokenizer"] = _grouping(content["pre_tokenizer"])
    made = _rebuilt(content, tokenizer)
    same = made.encode(_SAMPLE, add_special_tokens=False) == tokenizer.encode(_SAMPLE, add_special_tokens=False)
    same = same and tokenizer.get_vocab().items() <= made.get_vocab().items()
    if not same or not _groups(made):
        raise UserError(
            f"{_SETTING}: {_kind(tokenizer)} splits text in a way that cannot be extended exactly. Remove the setting, or "
            "use spans: result_pieces, which keeps the order of digits."
        )
    return made


def _groups(tokenizer: Any) -> bool:
    """Return whether every group is one token and longer numbers are split into groups from the left."""
    encode = lambda text: tokenizer.encode(text, add_special_tokens=False)  # noqa: E731
    if any(len(encode(group)) != 1 for group in GROUPS):
        return False
    return encode("1234567") == [i for group in ("123", "456", "7") for i in encode(group)]


def _refuse_other_kinds(content: dict[str, Any], tokenizer: Any) -> None:
    model, cutter = content["model"], content["pre_tokenizer"]
    bytes_ = any(part["type"] == "ByteLevel" for part in _parts(cutter))
    if model["type"] != "BPE" or not bytes_ or any(str(digit) not in model["vocab"] for digit in range(10)):
        raise UserError(
            f"{_SETTING}: {_kind(tokenizer)} is not a byte-level BPE tokenizer with a token for each digit, and only such "
            "a tokenizer can be extended. Remove the setting."
        )


def _parts(cutter: dict[str, Any] | None) -> Iterable[dict[str, Any]]:
    if cutter is None:
        return []
    return cutter["pretokenizers"] if cutter["type"] == "Sequence" else [cutter]


def _add_tokens(content: dict[str, Any], tokenizer: Any) -> None:
    model = content["model"]
    # control tokens outside the vocabulary would get new ids when it grows, unless it lists them
    model["vocab"].update({token["content"]: token["id"] for token in content["added_tokens"]})
    free = max(tokenizer.get_vocab().values()) + 1
    for group in GROUPS:
        if group not in model["vocab"]:
            model["vocab"][group], free = free, free + 1
    there = {tuple(merge) if isinstance(merge, list) else tuple(merge.split(" ")) for merge in model["merges"]}
    cuts = [(group[:at], group[at:]) for group in GROUPS for at in range(1, len(group))]
    fresh = [list(cut) for cut in cuts if cut not in there]
    strings = bool(model["merges"]) and isinstance(model["merges"][0], str)
    model["merges"] += [" ".join(cut) for cut in fresh] if strings else fresh


def _grouping(cutter: dict[str, Any]) -> dict[str, Any]:
    """Return the pre-tokenizer with digits in groups: in place of its split into single digits, else before all else."""
    parts, done = [], False
    for part in _parts(cutter):
        pattern = part.get("pattern", {}).get("Regex", "") if part["type"] == "Split" else ""
        if part["type"] == "Digits":
            part, done = _CUT, True
        elif r"|\p{N}|" in pattern:  # Qwen's
            part, done = {**part, "pattern": {"Regex": pattern.replace(r"|\p{N}|", f"|{_GROUPED}|")}}, True
        parts.append(part)
    first = {**_CUT, "pattern": {"Regex": "[0-9]{1,3}"}}
    return {"type": "Sequence", "pretokenizers": parts if done else [first, *parts]}


def _rebuilt(content: dict[str, Any], tokenizer: Any) -> Any:
    """Build a tokenizer of the generic class, which uses its JSON unchanged; some models' classes rebuild their rules."""
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

    options = {key: value for key in _OPTIONS if (value := getattr(tokenizer, key, None)) is not None}
    return PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(json.dumps(content)),
        chat_template=getattr(tokenizer, "chat_template", None),
        name_or_path=tokenizer.name_or_path,
        **tokenizer.special_tokens_map,
        **options,
    )


def _kind(tokenizer: Any) -> str:
    return type(tokenizer).__name__
