"""A GGUF file of a Llama or Qwen2 with a byte-level tokenizer → a Hugging Face folder, and hashes that identify one.

Weights are stored in bfloat16, the precision of the original. This rounds a value by at most 0.4 %, while Q4_1 has already
moved it by up to 1/30 of its block's range. In return a GPU with bfloat16 weights and a CPU that computes in float32 have
exactly the same backbone under an adapter.

transformers reads GGUF too, but rebuilds this tokenizer without its split into single digits and with another end token.
The files are therefore written here, byte for byte identical with every version of the libraries.
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ruplar.errors import UserError, install_extra

if TYPE_CHECKING:
    from gguf import GGUFReader
    from torch import Tensor

WEIGHTS, TOKENIZER = "model.safetensors", ("tokenizer.json", "tokenizer_config.json")
CONFIG = ("config.json", "generation_config.json")

_HF: dict[str, Any] = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
"""GGUF's names of architectures, tensors and pre-tokenizers → Hugging Face's, and the fixed parts of tokenizer.json."""
_LAYER = re.compile(r"blk\.(\d+)\.(\w+)\.(weight|bias)")
_CONTROL, _USER, _UNUSED = 3, 4, 5
"""GGUF's token types: control tokens, tokens added for users, and rows without a token."""
_TIED = 0.2
"""Relative distance up to which an output matrix counts as the embedding at another precision; 4 bits move it by 0.07 to 0.1."""


def convert(file: Path, folder: Path) -> None:
    reader = _open(file)
    kind = {key: _field(reader, key) for key in ("general.architecture", "tokenizer.ggml.model", "tokenizer.ggml.pre")}
    if (
        kind["general.architecture"] not in _HF["classes"]
        or kind["tokenizer.ggml.model"] != "gpt2"
        or _pre_tokenizer(reader) is None
    ):
        raise UserError(
            f"{file}: is {', '.join(f'{key}: {value}' for key, value in kind.items())}; only {' and '.join(_HF['classes'])} models "
            f"with a gpt2 tokenizer and the pre-tokenizer {' or '.join(_HF['pre_tokenizers'])} can be converted. Use a Hugging Face folder of "
            "the model instead."
        )
    tensors = _tensors(reader)
    written = {
        "config.json": _config(reader, tied="lm_head.weight" not in tensors),
        "generation_config.json": _control_ids(reader),
        "tokenizer.json": _tokenizer(reader),
        "tokenizer_config.json": _tokenizer_config(reader),
    }
    for name, content in written.items():
        (folder / name).write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    from safetensors.torch import save_file

    save_file(tensors, folder / WEIGHTS, metadata={"format": "pt"})
    (folder / WEIGHTS).chmod(0o644)  # safetensors makes files readable for the owner only


def weights_hash(folder: Path) -> str:
    """Return the SHA-256 over each tensor's name, dtype, shape and values, sorted by name."""
    import torch
    from safetensors import safe_open

    total = hashlib.sha256()
    with safe_open(folder / WEIGHTS, framework="pt") as tensors:
        for name in sorted(tensors.keys()):
            tensor = tensors.get_tensor(name).contiguous()
            total.update(f"{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
            total.update(tensor.view(torch.uint8).numpy().data)
    return total.hexdigest()


def files_hash(folder: Path, names: tuple[str, ...]) -> str:
    """Return the SHA-256 of these files, concatenated."""
    return hashlib.sha256(b"".join((folder / name).read_bytes() for name in names)).hexdigest()


def _open(file: Path) -> GGUFReader:
    try:
        from gguf import GGUFReader
    except ImportError as error:
        raise UserError(f"reading a GGUF file needs the package gguf. {install_extra('smollm2')}") from error
    try:
        return GGUFReader(file)
    except (ValueError, OSError, IndexError) as error:
        raise UserError(f"{file}: cannot be read as a GGUF file ({error}).") from error


def _field(reader: GGUFReader, key: str) -> Any:
    found = reader.fields.get(key)
    return None if found is None else found.contents()


def _pre_tokenizer(reader: GGUFReader) -> dict[str, Any] | None:
    return _HF["pre_tokenizers"].get(str(_field(reader, "tokenizer.ggml.pre")))


def _architecture(reader: GGUFReader) -> str:
    return str(_field(reader, "general.architecture"))


def _config(reader: GGUFReader, tied: bool) -> dict[str, Any]:
    kind = _architecture(reader)
    get = lambda key: _field(reader, f"{kind}.{key}")  # noqa: E731
    width, heads = get("embedding_length"), get("attention.head_count")
    llama = kind == "llama"
    return {
        "architectures": [_HF["classes"][kind]],
        "model_type": kind,
        "hidden_size": width,
        "intermediate_size": get("feed_forward_length"),
        "num_hidden_layers": get("block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": get("attention.head_count_kv"),
        **({"head_dim": width // heads} if llama else {}),
        "hidden_act": "silu",
        "max_position_embeddings": get("context_length"),
        "rms_norm_eps": _short(get("attention.layer_norm_rms_epsilon")),
        "rope_parameters": {"rope_type": "default", "rope_theta": _short(get("rope.freq_base"))},
        "vocab_size": len(_field(reader, "tokenizer.ggml.tokens")),
        "tie_word_embeddings": tied,
        **({"attention_bias": False, "mlp_bias": False} if llama else {}),
        "dtype": "bfloat16",
        "transformers_version": "5.0.0",  # without it transformers suspects a faulty Mistral tokenizer and warns
        **_control_ids(reader),
    }


def _short(number: float) -> float:
    """Undo float32 rounding: 9.999999747378752e-06 → 1e-05."""
    return float(f"{number:.7g}")


def _control_ids(reader: GGUFReader) -> dict[str, int]:
    names = {"bos_token_id": "bos", "eos_token_id": "eos", "pad_token_id": "padding"}
    found = {ours: _field(reader, f"tokenizer.ggml.{theirs}_token_id") for ours, theirs in names.items()}
    if (end := _HF["end_of_turn"].get(_architecture(reader))) is not None:
        found["eos_token_id"] = _field(reader, "tokenizer.ggml.tokens").index(end)
    return found


def _tokenizer(reader: GGUFReader) -> dict[str, Any]:
    tokens, kinds = (_field(reader, f"tokenizer.ggml.{key}") for key in ("tokens", "token_type"))
    added = [(i, kind == _CONTROL) for i, kind in enumerate(kinds) if kind in (_CONTROL, _USER)]
    fixed, plain = _HF["tokenizer"], _HF["added_token"]
    vocab = {token: i for i, (token, kind) in enumerate(zip(tokens, kinds, strict=True)) if kind != _UNUSED}
    merges = [merge.split(" ") for merge in _field(reader, "tokenizer.ggml.merges")]
    return {
        **fixed,
        "added_tokens": [{"id": i, "content": tokens[i], **plain, "special": special} for i, special in added],
        "normalizer": _HF["normalizers"].get(_architecture(reader)),
        "pre_tokenizer": _pre_tokenizer(reader),
        "model": {**fixed["model"], "vocab": vocab, "merges": merges},
    }


def _tokenizer_config(reader: GGUFReader) -> dict[str, Any]:
    tokens = _field(reader, "tokenizer.ggml.tokens")
    ids = {**_control_ids(reader), "unk_token_id": _field(reader, "tokenizer.ggml.unknown_token_id")}
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        **{name.removesuffix("_id"): tokens[i] for name, i in ids.items() if i is not None},
        "clean_up_tokenization_spaces": False,
        "model_max_length": _field(reader, f"{_architecture(reader)}.context_length"),
        "chat_template": _field(reader, "tokenizer.chat_template"),
    }


def _tensors(reader: GGUFReader) -> dict[str, Tensor]:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor() as pool:  # numpy releases the interpreter's lock while it unpacks
        found = dict(pool.map(lambda tensor: _tensor(reader, tensor), reader.tensors))
    head, embedding = found.get("lm_head.weight"), found["model.embed_tokens.weight"]
    if head is not None and (head.float() - embedding.float()).norm() < _TIED * embedding.float().norm():
        # one matrix, stored twice; this copy is finer
        found["model.embed_tokens.weight"] = found.pop("lm_head.weight")
    return found


def _tensor(reader: GGUFReader, tensor: Any) -> tuple[str, Tensor]:
    import torch
    from gguf.quants import dequantize

    name, part = _name(tensor.name)
    weight = torch.from_numpy(dequantize(tensor.data, tensor.tensor_type).copy()).float()
    heads = {"attn_q": "attention.head_count", "attn_k": "attention.head_count_kv"}
    if _architecture(reader) == "llama" and part in heads:
        weight = _halves(weight, _field(reader, f"llama.{heads[part]}"))
    return name, weight.to(torch.bfloat16).contiguous()


def _name(theirs: str) -> tuple[str, str]:
    """GGUF's name of a tensor → Hugging Face's name, and the part of the layer."""
    if (inside := _LAYER.fullmatch(theirs)) and inside[2] in _HF["layer_tensors"]:
        return f"model.layers.{inside[1]}.{_HF['layer_tensors'][inside[2]]}.{inside[3]}", inside[2]
    whole = theirs.removesuffix(".weight")
    if whole not in _HF["tensors"]:
        raise UserError(f"the GGUF file has a tensor '{theirs}' that a plain Llama or Qwen2 does not have.")
    return f"{_HF['tensors'][whole]}.weight", whole


def _halves(weight: Tensor, heads: int) -> Tensor:
    """Reorder the rows of a query or key projection from interleaved rotary pairs (GGUF) to halves (Hugging Face)."""
    size = weight.shape[0] // heads
    return weight.view(heads, size // 2, 2, -1).transpose(1, 2).reshape(weight.shape)
