"""Name → tokenizer: the packaged one, a folder, a Hub name, or Llama-3's from the PyPI package llama-models.

That package has a file in tiktoken's format: `base64(bytes) rank` per line. It has no pattern and no control tokens; both are
defined here and in llama3.yaml as Llama-3.1 and 3.2 have them on the Hub, so the ids are those of the checkpoints.
"""

from __future__ import annotations

import base64
import copy
import functools
import importlib.util
import itertools
import re
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

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

_LLAMA3 = yaml.safe_load(Path(__file__).with_name("llama3.yaml").read_text(encoding="utf-8"))


def load_tokenizer(name: str | Path) -> PreTrainedTokenizerBase:
    """Load a tokenizer; the caller may change it.

    A name of `ruplar list backbones`; `llama-3` (reads a file of the PyPI package llama-models); a folder saved by
    Hugging Face; or a name on the Hub.
    """
    text = str(name)
    if text == "embedded" or text in DOMAINS:
        return _from_folder(DOMAINS.get(text, EMBEDDED))
    if text in KNOWN:
        return _from_folder(fetched(text), f" Run `ruplar fetch {text}`, which rebuilds it.")
    if text == "llama-3":
        return copy.deepcopy(_llama3(llama3_file()))  # the caller may add tokens
    if Path(name).is_dir():
        return _from_folder(Path(name))
    if isinstance(name, Path) or not _HUB_NAME.fullmatch(text) or Path(name).is_file():
        raise UserError(f"tokenizer: no folder '{text}'.")
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


@functools.cache
def _llama3(file: Path) -> PreTrainedTokenizerBase:
    """Llama-3's tiktoken file → tokenizer; slow, so cached."""
    from transformers import PreTrainedTokenizerFast
    from transformers.convert_slow_tokenizer import TikTokenConverter

    class Converter(TikTokenConverter):
        @staticmethod
        def load_tiktoken_bpe(tiktoken_url: str) -> dict[bytes, int]:
            return read_ranks(file)  # so that the package tiktoken is not needed

    # the converter's default pattern is Llama-3's
    backend = Converter(vocab_file=str(file), extra_special_tokens=llama3_controls()).converted()
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        bos_token="<|begin_of_text|>",
        eos_token="<|eot_id|>",
        pad_token="<|end_of_text|>",
        padding_side="right",
        clean_up_tokenization_spaces=False,
        chat_template=_LLAMA3["chat_template"],
        name_or_path="llama-3",
    )


def llama3_controls() -> list[str]:
    """Return Llama-3's 256 control tokens in the order of their ids, from 128000 on."""
    count, named, spare = _LLAMA3["controls"], _LLAMA3["named"], itertools.count()
    return [named.get(i) or f"<|reserved_special_token_{next(spare)}|>" for i in range(count)]


def read_ranks(file: Path) -> dict[bytes, int]:
    """A file in tiktoken's format → token bytes → id."""
    pairs = (line.split() for line in file.read_bytes().splitlines() if line.strip())
    return {base64.b64decode(token): int(rank) for token, rank in pairs}
