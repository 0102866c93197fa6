r"""Build the embedded tokenizer from the text of a generator: `python -m ruplar.embedded.make_tokenizer OUT`.

A byte-level BPE like Llama-3's, small enough for a 5-million-parameter model:

- any text encodes and decodes exactly, because all 256 bytes are tokens;
- numbers are split into groups of 1-3 digits, and each of the 1,110 groups is one token, without a space;
- every word of the generator, with its leading space, is one token: whole words are looked up before merges are tried
  (`ignore_merges`), so no intermediate merges are needed; this includes the held-out families;
- `<<`, `>>`, each sign and `\boxed{` are tokens of their own; the six control tokens are special tokens.

The rest of the vocabulary is used for merges that spell unknown words. Other domains have tokenizers of their own, built the
same way from another `TokenizerPlan`: see `make_domain_tokenizer.py`.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

from ruplar.problems import word_problems

SPECIAL = ("<|pad|>", "<|user|>", "<|end|>", "<|assistant|>", "<think>", "</think>")
VOCABULARY = 2304
PATTERN = (
    r" (?=\\boxed\{)|\\boxed\{| ?<<|>>"  # marks of chain and answer
    r"|'(?:s|t|re|ve|m|ll|d)(?!\p{L})| ?\p{L}+"  # words, with a leading space
    r"|\p{N}{1,3}"  # digits in groups of three, never with a space
    r"| ?[^\s\p{L}\p{N}]"  # every other sign on its own
    r"|\s+(?!\S)|\s"
)
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{% if message['role'] == 'user' %}{{ '<|user|>' + message['content'] + '<|end|>' }}"
    "{% elif message['role'] == 'assistant' %}{{ '<|assistant|>' + message['content'] + '<|end|>' }}"
    "{% else %}{{ raise_exception('The embedded model knows the roles user and assistant, not ' + message['role'] + '.') }}"
    "{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)
FAMILIES = (
    *("ages", "averages", "bakery", "classroom", "collecting", "comparing", "cooking", "drills", "factory", "farm"),
    *("floors", "harvest", "old_measures", "passengers", "points", "potion_shop", "reading", "sales", "savings"),
    *("shopping", "stock", "tank", "theatre", "travel", "wages"),
)
"""The families whose words are tokens; fixed, so that a new family does not change the tokenizer of the packaged model."""

_SEED = 1
_PER_FAMILY = 500  # no new words from 300 on


@dataclass(frozen=True)
class TokenizerPlan:
    """The specification of a tokenizer."""

    pattern: str
    texts: Callable[[], Iterable[str]]
    fixed: tuple[str, ...]
    vocabulary: int


def _word_problems() -> Iterable[str]:
    for name in FAMILIES:
        yield "\n".join(
            e.question + "\n" + e.chain for e in word_problems.generate(_PER_FAMILY, _SEED, families=[name])
        )


MARKS = ("\\boxed{", "<<", "Ġ<<", ">>")
DIGITS = tuple(f"{n:0{width}d}" for width in (2, 3) for n in range(10**width))
WORD_PROBLEMS = TokenizerPlan(PATTERN, _word_problems, (*DIGITS, *MARKS), VOCABULARY)


def pieces(plan: TokenizerPlan = WORD_PROBLEMS) -> Counter[str]:
    """Return every pre-token of the texts, in byte-level spelling, with its count."""
    cut = _pre_tokenizer(plan.pattern)
    found: Counter[str] = Counter()
    for text in plan.texts():
        found.update(piece for piece, _ in cut.pre_tokenize_str(text))
    return found


def build(plan: TokenizerPlan = WORD_PROBLEMS) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the contents of tokenizer.json and tokenizer_config.json."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    fixed = [*SPECIAL, *alphabet, *plan.fixed]
    words = [w for w, _ in sorted(pieces(plan).items(), key=lambda item: (-item[1], item[0])) if w not in set(fixed)]
    tokens = [*fixed, *words]
    if len(tokens) > plan.vocabulary:
        raise RuntimeError(
            f"{len(words)} words do not fit into a vocabulary of {plan.vocabulary} beside {len(fixed)} fixed tokens"
        )
    merges = _merges([w for w in words if any(c.isalpha() for c in w)], alphabet, tokens, plan.vocabulary)
    known = set(tokens)
    tokens += [t for left, right in merges if (t := left + right) not in known]
    trained = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(tokens)}, merges=merges, ignore_merges=True))
    trained.pre_tokenizer = _pre_tokenizer(plan.pattern)
    contents = json.loads(trained.to_str())
    contents["decoder"] = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    contents["added_tokens"] = [{"id": i, "content": t, **flags} for i, t in enumerate(SPECIAL)]
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": False,
        "eos_token": "<|end|>",
        "pad_token": "<|pad|>",
        "additional_special_tokens": ["<|user|>", "<|assistant|>", "<think>", "</think>"],
        "chat_template": CHAT_TEMPLATE,
    }
    return contents, config


def write(folder: Path, plan: TokenizerPlan = WORD_PROBLEMS) -> None:
    """Write both files into the folder; it is created if missing."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, contents in zip(("tokenizer.json", "tokenizer_config.json"), build(plan), strict=True):
        text = json.dumps(contents, ensure_ascii=False, indent=1)
        (folder / name).write_text(text + "\n", encoding="utf-8")


def _pre_tokenizer(pattern: str) -> pre_tokenizers.Sequence:
    split = pre_tokenizers.Split(Regex(pattern), behavior="isolated")
    return pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def _merges(words: list[str], alphabet: list[str], tokens: list[str], vocabulary: int) -> list[tuple[str, str]]:
    """Return as many merges, trained on the words, as fit in the vocabulary."""
    spelled = Tokenizer(models.BPE())
    trainer = trainers.BpeTrainer(vocab_size=1000, initial_alphabet=alphabet, special_tokens=[], show_progress=False)
    spelled.train_from_iterator(words, trainer)
    room, known, merges = vocabulary - len(tokens), set(tokens), []
    for left, right in json.loads(spelled.to_str())["model"]["merges"]:
        if left + right not in known:
            if not room:
                break
            room -= 1
        merges.append((left, right))
    if room:
        raise RuntimeError(f"{room} entries of the vocabulary are unused")
    return merges


if __name__ == "__main__":
    write(Path(sys.argv[1]))
