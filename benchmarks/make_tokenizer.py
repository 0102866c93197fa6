r"""Build a tokenizer from the text of a generator: `python benchmarks/make_tokenizer.py word-problems OUT`.

A byte-level BPE like Llama-3's, small enough for a 5-million-parameter model. A symbol of a domain should be one token, the same
one in every position, so each domain has a tokenizer of its own:

- any text encodes and decodes exactly, because all 256 bytes are tokens;
- every word of the generator, with its leading space, is one token: whole words are looked up before merges are tried
  (`ignore_merges`), so no intermediate merges are needed; this includes the held-out families;
- `<<`, `>>`, each sign and `\boxed{` are tokens of their own; the six control tokens are special tokens;
- word-problems: each of the 1,110 groups of 1-3 digits is one token, without a space;
- dates: months, units, years (1880 to 2099) and other words of steps are one token each, without a space;
- logic: names and concepts are one token each, without a space; `Every `, ` is a ` and ` or ` are tokens with their spaces.

The rest of the vocabulary is used for merges that spell unknown words.
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

from ruplar.domains._calendar import MONTHS
from ruplar.domains._named_days import ORDINALS
from ruplar.embedded import TOKENIZER
from ruplar.problems import date_problems, logic_problems, word_problems
from ruplar.problems.date_scenarios import EARLIEST, FULL_MONTHS, LATEST

SPECIAL = ("<|pad|>", "<|user|>", "<|end|>", "<|assistant|>", "<think>", "</think>")
_OPEN = r" (?=\\boxed\{)|\\boxed\{| ?<<|>>"
_CLOSE = r"|\s+(?!\S)|\s"
_UNITS = ("hour", "day", "week", "month", "year")
_WORDS = (*FULL_MONTHS, *MONTHS, *_UNITS, *(f"{unit}s" for unit in _UNITS), *ORDINALS, "quarter", "Christmas", "Eve")
_BARE = "|".join(sorted(dict.fromkeys(_WORDS), key=len, reverse=True))

_DATES = (
    _OPEN + rf"|(?:{_BARE})(?!\p{{L}})"  # words of steps, never with a space
    rf"|'(?:s|t|re|ve|m|ll|d)(?!\p{{L}})| ?(?!(?:{_BARE})(?!\p{{L}}))\p{{L}}+"  # other words, with a leading space
    r"|\p{N}{4}(?!\p{N})|\p{N}{1,3}"  # years as a whole, other digits in groups of three
    r"|, (?=\p{N})|[^\s\p{L}\p{N}]" + _CLOSE
)
_LOGIC = (
    _OPEN + r"| ?(?:Every|Is) (?=\p{L})| is an? (?=\p{L})| or (?:an? )?(?=\p{L})"  # the form of facts and questions
    r"|\p{L}+|\p{N}{1,3}|[^\s\p{L}\p{N}]" + _CLOSE
)
_WORD_PROBLEMS = (
    _OPEN + r"|'(?:s|t|re|ve|m|ll|d)(?!\p{L})| ?\p{L}+"  # words, with a leading space
    r"|\p{N}{1,3}"  # digits in groups of three, never with a space
    r"| ?[^\s\p{L}\p{N}]" + _CLOSE  # every other sign on its own
)
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{% if message['role'] == 'user' %}{{ '<|user|>' + message['content'] + '<|end|>' }}"
    "{% elif message['role'] == 'assistant' %}{{ '<|assistant|>' + message['content'] + '<|end|>' }}"
    "{% else %}{{ raise_exception('The embedded model knows the roles user and assistant, not ' + message['role'] + '.') }}"
    "{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)
FAMILIES = tuple(
    [
        "ages",
        "averages",
        "bakery",
        "classroom",
        "collecting",
        "comparing",
        "cooking",
        "drills",
        "factory",
        "farm",
        "floors",
        "harvest",
        "old_measures",
        "passengers",
        "points",
        "potion_shop",
        "reading",
        "sales",
        "savings",
        "shopping",
        "stock",
        "tank",
        "theatre",
        "travel",
        "wages",
    ]
)
"""The families whose words are tokens; fixed, so that a new family does not change the tokenizer of the packaged model."""

_SEED, _COUNT = 1, 3000
_PER_FAMILY = 500  # no new words from 300 on


@dataclass(frozen=True)
class TokenizerPlan:
    """The specification of a tokenizer."""

    pattern: str
    texts: Callable[[], Iterable[str]]
    fixed: tuple[str, ...]
    vocabulary: int


def _word_problem_texts() -> Iterable[str]:
    for name in FAMILIES:
        yield "\n".join(
            e.question + "\n" + e.chain for e in word_problems.generate(_PER_FAMILY, _SEED, families=[name])
        )


def _texts(problems) -> Iterable[str]:
    return ("\n".join((e.question, e.chain, e.answer)) for e in problems.generate(_COUNT, _SEED))


MARKS = ("\\boxed{", "<<", "Ġ<<", ">>")
_DIGITS = tuple(f"{n:0{width}d}" for width in (2, 3) for n in range(10**width))
_NUMBERS = (*(f"{n:02d}" for n in range(100)), *map(str, range(100, 400)), *map(str, range(EARLIEST, LATEST + 1)))
_DATE_TOKENS = tuple(dict.fromkeys((*_NUMBERS, *MARKS, *_WORDS)))
PLANS = {
    "word-problems": TokenizerPlan(_WORD_PROBLEMS, _word_problem_texts, (*_DIGITS, *MARKS), 2304),
    "dates": TokenizerPlan(_DATES, lambda: _texts(date_problems), _DATE_TOKENS, 1216),
    "logic": TokenizerPlan(_LOGIC, lambda: _texts(logic_problems), MARKS, 384),
}
"""What it is for → the specification of a tokenizer."""

SHAPE = TOKENIZER.parent / "backbone" / "config.json"
"""The embedded model's config, shared by the models of the domains except for the vocabulary size."""


def pieces(plan: TokenizerPlan) -> Counter[str]:
    """Return every pre-token of the texts, in byte-level spelling, with its count."""
    cut = _pre_tokenizer(plan.pattern)
    found: Counter[str] = Counter()
    for text in plan.texts():
        found.update(piece for piece, _ in cut.pre_tokenize_str(text))
    return found


def build(plan: TokenizerPlan) -> tuple[dict[str, Any], dict[str, Any]]:
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


def write(folder: Path, name: str) -> None:
    """Write the tokenizer, and for a domain the config.json of its backbone (no weights), into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for file, contents in zip(("tokenizer.json", "tokenizer_config.json"), build(PLANS[name]), strict=True):
        text = json.dumps(contents, ensure_ascii=False, indent=1)
        (folder / file).write_text(text + "\n", encoding="utf-8")
    if name != "word-problems":
        shape = json.loads(SHAPE.read_text(encoding="utf-8")) | {"vocab_size": PLANS[name].vocabulary}
        (folder / "config.json").write_text(json.dumps(shape, indent=2) + "\n", encoding="utf-8")


def _pre_tokenizer(pattern: str) -> pre_tokenizers.Sequence:
    split = pre_tokenizers.Split(Regex(pattern), behavior="isolated")
    return pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def _merges(words: list[str], alphabet: list[str], tokens: list[str], vocabulary: int) -> list[tuple[str, str]]:
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
    write(Path(sys.argv[2]), sys.argv[1])
