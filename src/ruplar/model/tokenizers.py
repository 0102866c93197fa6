"""Name → tokenizer: the packaged one, a folder, a Hub name, or Llama-3's own `tokenizer.model`.

Llama-3's file is in tiktoken's format: `base64(bytes) rank` per line. It has no pattern and no control tokens; both are
defined here as Llama-3.1 and 3.2 have them on the Hub, so the ids are those of the checkpoints.
"""

from __future__ import annotations

import base64
import binascii
import copy
import functools
import importlib.util
import re
from pathlib import Path
from typing import TYPE_CHECKING

from ruplar.download import responds
from ruplar.errors import UserError
from ruplar.model.fetch import KNOWN, fetched

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_PACKAGE = Path(__file__).parents[1] / "embedded"
EMBEDDED = _PACKAGE / "tokenizer"
"""The packaged tokenizer."""
DOMAINS = {f"embedded-{name}": _PACKAGE / name for name in ("dates", "logic")}
"""Name → folder of the packaged domain tokenizers, each with a model config and no weights."""

_HUB_NAME = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)?")

_LLAMA3_RANKS = 128_000
_LLAMA3_CONTROLS = 256
_LLAMA3_NAMED = {
    0: "<|begin_of_text|>",
    1: "<|end_of_text|>",
    4: "<|finetune_right_pad_id|>",
    6: "<|start_header_id|>",
    7: "<|end_header_id|>",
    8: "<|eom_id|>",
    9: "<|eot_id|>",
    10: "<|python_tag|>",
}
# No <|begin_of_text|> and no system turn: the method's layout has neither.
_LLAMA3_CHAT = (
    "{% for message in messages %}<|start_header_id|>{{ message['role'] }}<|end_header_id|>\n\n"
    "{{ message['content'] }}<|eot_id|>{% endfor %}"
    "{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}"
)


def load_tokenizer(name: str | Path) -> PreTrainedTokenizerBase:
    """Load a tokenizer; the caller may change it.

    A name of `ruplar list backbones`; `llama-3` (reads a file of the PyPI package llama-models); a folder saved by
    Hugging Face; a `tokenizer.model` of Llama-3; or a name on the Hub.
    """
    text = str(name)
    if text == "embedded" or text in DOMAINS:
        return _from_folder(DOMAINS.get(text, EMBEDDED))
    if text in KNOWN:
        return _from_folder(fetched(text), f" Run `ruplar fetch {text}`, which rebuilds it.")
    if text == "llama-3":
        return _from_tiktoken(llama3_file())
    path = Path(name)
    if path.is_dir():
        return _from_folder(path)
    if path.is_file():
        return _from_tiktoken(path)
    if isinstance(name, Path) or not _HUB_NAME.fullmatch(text) or text.endswith(".model"):
        raise UserError(f"tokenizer: no file or folder '{text}'.")
    return _from_hub(text)


def of_domain(domain: str) -> str:
    """Domain → name of the packaged tokenizer that encodes its symbols as single tokens."""
    return f"embedded-{domain}" if f"embedded-{domain}" in DOMAINS else "embedded"


def llama3_file() -> Path:
    # located without importing: its dependencies need not be installed
    found = importlib.util.find_spec("llama_models")
    for folder in (found.submodule_search_locations or []) if found else []:
        file = Path(folder) / "llama3" / "tokenizer.model"
        if file.is_file():
            return file
    raise UserError(
        "tokenizer: 'llama-3' is read from the PyPI package llama-models, which is not installed. "
        "Run `pip install --no-deps llama-models`, or give a folder with a tokenizer."
    )


def _from_folder(folder: Path, fix: str = "") -> PreTrainedTokenizerBase:
    from transformers import AutoTokenizer

    if not folder.is_dir():
        raise UserError(f"tokenizer: this installation lacks the packaged tokenizer ({folder}). Install ruplar again.")
    # a folder as published by Meta has the tiktoken file and no Hugging Face files
    if (folder / "tokenizer.model").is_file() and not any(folder.glob("*.json")):
        return _from_tiktoken(folder / "tokenizer.model")
    if not any((folder / file).is_file() for file in ("tokenizer.json", "tokenizer_config.json", "vocab.json")):
        raise UserError(
            f"tokenizer: the folder '{folder}' has no tokenizer (no tokenizer.json). "
            "Save one there with tokenizer.save_pretrained(folder)."
        )
    try:
        return AutoTokenizer.from_pretrained(str(folder), local_files_only=True, trust_remote_code=False)
    except Exception as error:  # a broken file raises almost any exception, including Rust's own
        raise UserError(f"tokenizer: the folder '{folder}' cannot be read: {_first_line(error)}{fix}") from error


def _from_hub(name: str) -> PreTrainedTokenizerBase:
    from huggingface_hub import constants, is_offline_mode
    from transformers import AutoTokenizer

    # the hub library itself would retry for most of a minute
    reachable = not is_offline_mode() and responds(constants.ENDPOINT)
    try:
        return AutoTokenizer.from_pretrained(name, local_files_only=not reachable, trust_remote_code=False)
    except (OSError, ValueError) as error:
        raise UserError(
            f"tokenizer: '{name}' is not a local folder, and "
            + (
                f"the Hugging Face Hub refused it: {_first_line(error)} Check the name and `hf auth login`"
                if reachable
                else "the Hugging Face Hub cannot be reached, nor was it downloaded before. Check the network"
            )
            + ", or give a folder. Without a download: embedded, llama-3."
        ) from error


def _first_line(error: Exception) -> str:
    line = (str(error).strip() or type(error).__name__).split("\n")[0]
    return line if line.endswith(".") else line + "."


def _from_tiktoken(file: Path) -> PreTrainedTokenizerBase:
    # a copy, because adding a token to the cached one would change it for all callers
    return copy.deepcopy(_converted(file.resolve()))


@functools.cache
def _converted(file: Path) -> PreTrainedTokenizerBase:
    """Llama-3's tiktoken file → tokenizer; slow, so cached."""
    from transformers import PreTrainedTokenizerFast
    from transformers.convert_slow_tokenizer import TikTokenConverter

    ranks = read_ranks(file)
    if len(ranks) != _LLAMA3_RANKS:
        raise UserError(
            f"tokenizer: '{file}' has {len(ranks):,} tokens; Llama-3's tokenizer.model has {_LLAMA3_RANKS:,}, and only its "
            "pattern and control tokens are supported. Give the model's Hugging Face folder instead."
        )

    class Converter(TikTokenConverter):
        @staticmethod
        def load_tiktoken_bpe(tiktoken_url: str) -> dict[bytes, int]:
            return ranks  # read above, so that the package tiktoken is not needed

    # the converter's default pattern is Llama-3's
    backend = Converter(vocab_file=str(file), extra_special_tokens=llama3_controls()).converted()
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        bos_token="<|begin_of_text|>",
        eos_token="<|eot_id|>",
        pad_token="<|end_of_text|>",
        padding_side="right",
        clean_up_tokenization_spaces=False,
        chat_template=_LLAMA3_CHAT,
        name_or_path="llama-3",
    )


def llama3_controls() -> list[str]:
    """Return Llama-3's 256 control tokens in the order of their ids, from 128000 on."""
    spare = iter(range(_LLAMA3_CONTROLS))
    return [_LLAMA3_NAMED.get(i) or f"<|reserved_special_token_{next(spare)}|>" for i in range(_LLAMA3_CONTROLS)]


def read_ranks(file: Path) -> dict[bytes, int]:
    """A file in tiktoken's format → token bytes → id."""
    ranks: dict[bytes, int] = {}
    with file.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                token, rank = line.split()
                ranks[base64.b64decode(token, validate=True)] = int(rank)
            except (ValueError, binascii.Error):
                raise UserError(
                    f"tokenizer: {file}:{number} is not a line of a tiktoken file (`base64 rank`). For a SentencePiece "
                    "model or a tokenizer.json give its folder."
                ) from None
    return ranks
