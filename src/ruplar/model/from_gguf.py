"""A GGUF file of a Llama with a byte-level tokenizer → a Hugging Face folder, and hashes that identify such a folder.

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

_WHOLE = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
_IN_LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_LAYER = re.compile(r"blk\.(\d+)\.(\w+)\.weight")
_CONTROL = 3
"""GGUF's type number of a control token."""
_BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
# pre-tokenizers by their GGUF name
_PRE_TOKENIZERS = {
    "smollm": {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": True}, _BYTES]}
}


def convert(file: Path, folder: Path) -> None:
    """Write config, tokenizer and weights of a GGUF file into a folder.

    Args:
        file: The GGUF file.
        folder: An empty folder.

    Raises:
        UserError: The package gguf is missing, or the file is not a GGUF file or contains another kind of model.
    """
    reader = _open(file)
    kind = {key: _field(reader, key) for key in ("general.architecture", "tokenizer.ggml.model", "tokenizer.ggml.pre")}
    if (
        kind["general.architecture"] != "llama"
        or kind["tokenizer.ggml.model"] != "gpt2"
        or _pre_tokenizer(reader) is None
    ):
        raise UserError(
            f"{file}: is {', '.join(f'{key}: {value}' for key, value in kind.items())}; only a llama with a gpt2 tokenizer "
            f"and pre-tokenizer {', '.join(_PRE_TOKENIZERS)} can be converted. Use a Hugging Face folder of the model instead."
        )
    written = {
        "config.json": _config(reader),
        "generation_config.json": _control_ids(reader),
        "tokenizer.json": _tokenizer(reader),
        "tokenizer_config.json": _tokenizer_config(reader),
    }
    for name, content in written.items():
        (folder / name).write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    from safetensors.torch import save_file

    save_file(_tensors(reader), folder / WEIGHTS, metadata={"format": "pt"})
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


def tokenizer_hash(folder: Path) -> str:
    """Return the SHA-256 of the tokenizer's two files, concatenated."""
    return _files_hash(folder, TOKENIZER)


def config_hash(folder: Path) -> str:
    """Return the SHA-256 of the two config files, concatenated."""
    return _files_hash(folder, CONFIG)


def _files_hash(folder: Path, names: tuple[str, ...]) -> str:
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
    return _PRE_TOKENIZERS.get(str(_field(reader, "tokenizer.ggml.pre")))


def _config(reader: GGUFReader) -> dict[str, Any]:
    get = lambda key: _field(reader, f"llama.{key}")  # noqa: E731
    width, heads = get("embedding_length"), get("attention.head_count")
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": width,
        "intermediate_size": get("feed_forward_length"),
        "num_hidden_layers": get("block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": get("attention.head_count_kv"),
        "head_dim": width // heads,
        "hidden_act": "silu",
        "max_position_embeddings": get("context_length"),
        "rms_norm_eps": _short(get("attention.layer_norm_rms_epsilon")),
        "rope_parameters": {"rope_type": "default", "rope_theta": _short(get("rope.freq_base"))},
        "vocab_size": len(_field(reader, "tokenizer.ggml.tokens")),
        "tie_word_embeddings": not any(tensor.name == "output.weight" for tensor in reader.tensors),
        "attention_bias": False,
        "mlp_bias": False,
        "dtype": "bfloat16",
        **_control_ids(reader),
    }


def _short(number: float) -> float:
    """Undo float32 rounding: 9.999999747378752e-06 → 1e-05."""
    return float(f"{number:.7g}")


def _control_ids(reader: GGUFReader) -> dict[str, int]:
    names = {"bos_token_id": "bos", "eos_token_id": "eos", "pad_token_id": "padding"}
    return {ours: _field(reader, f"tokenizer.ggml.{theirs}_token_id") for ours, theirs in names.items()}


def _tokenizer(reader: GGUFReader) -> dict[str, Any]:
    tokens, kinds = (_field(reader, f"tokenizer.ggml.{key}") for key in ("tokens", "token_type"))
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    controls = [i for i, kind in enumerate(kinds) if kind == _CONTROL]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": i, "content": tokens[i], **plain} for i in controls],
        "normalizer": None,
        "pre_tokenizer": _pre_tokenizer(reader),
        "post_processor": None,
        "decoder": {**_BYTES, "add_prefix_space": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {token: i for i, token in enumerate(tokens)},
            "merges": [merge.split(" ") for merge in _field(reader, "tokenizer.ggml.merges")],
        },
    }


def _tokenizer_config(reader: GGUFReader) -> dict[str, Any]:
    tokens = _field(reader, "tokenizer.ggml.tokens")
    names = {"bos_token": "bos", "eos_token": "eos", "pad_token": "padding", "unk_token": "unknown"}
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        **{ours: tokens[_field(reader, f"tokenizer.ggml.{theirs}_token_id")] for ours, theirs in names.items()},
        "clean_up_tokenization_spaces": False,
        "model_max_length": _field(reader, "llama.context_length"),
        "chat_template": _field(reader, "tokenizer.chat_template"),
    }


def _tensors(reader: GGUFReader) -> dict[str, Tensor]:
    import torch
    from gguf.quants import dequantize

    heads = {
        "attn_q": _field(reader, "llama.attention.head_count"),
        "attn_k": _field(reader, "llama.attention.head_count_kv"),
    }
    found: dict[str, Tensor] = {}
    for tensor in reader.tensors:
        name, part = _name(tensor.name)
        weight = torch.from_numpy(dequantize(tensor.data, tensor.tensor_type).copy()).float()
        if part in heads:
            weight = _halves(weight, heads[part])
        found[name] = weight.to(torch.bfloat16).contiguous()
    return found


def _name(theirs: str) -> tuple[str, str]:
    """GGUF's name of a tensor → Hugging Face's name, and the part of the layer."""
    if (inside := _LAYER.fullmatch(theirs)) and inside[2] in _IN_LAYER:
        return f"model.layers.{inside[1]}.{_IN_LAYER[inside[2]]}.weight", inside[2]
    whole = theirs.removesuffix(".weight")
    if whole not in _WHOLE:
        raise UserError(f"the GGUF file has a tensor '{theirs}' that a plain Llama does not have.")
    return f"{_WHOLE[whole]}.weight", whole


def _halves(weight: Tensor, heads: int) -> Tensor:
    """Reorder the rows of a query or key projection from interleaved rotary pairs (GGUF) to halves (Hugging Face)."""
    size = weight.shape[0] // heads
    return weight.view(heads, size // 2, 2, -1).transpose(1, 2).reshape(weight.shape)
