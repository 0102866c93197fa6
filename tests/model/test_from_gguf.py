"""A GGUF file becomes a Hugging Face folder with the same weights, tokens and config."""

import sys

import pytest
import torch
from tiny_gguf import TEMPLATE, write_gguf
from transformers import AutoModelForCausalLM, AutoTokenizer

from ruplar.errors import UserError
from ruplar.model import from_gguf


@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
def test_weights_are_those_transformers_reads_from_the_file_rounded_to_bfloat16(tmp_path, tied):
    file = write_gguf(tmp_path / "m.gguf", tied=tied)
    folder = tmp_path / "made"
    folder.mkdir()
    from_gguf.convert(file, folder)
    ours = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    theirs = AutoModelForCausalLM.from_pretrained(tmp_path, gguf_file="m.gguf", dtype=torch.float32)
    wanted = {name: tensor.bfloat16().float() for name, tensor in theirs.state_dict().items()}
    found = ours.state_dict()
    assert found.keys() == wanted.keys() and all(torch.equal(found[name], wanted[name]) for name in wanted)
    assert ours.config.tie_word_embeddings == tied and ours.config.rms_norm_eps == 1e-5
    for key in ("rope_parameters", "num_key_value_heads", "max_position_embeddings", "vocab_size", "eos_token_id"):
        assert getattr(ours.config, key) == getattr(theirs.config, key)


@pytest.mark.parametrize("coarse", ["Q5_0", "Q4_0"])
def test_a_qwen2_has_biases_one_tied_matrix_and_no_token_for_unused_rows(tmp_path, coarse):
    file, folder = write_gguf(tmp_path / "q.gguf", pre="qwen2", kind="qwen2", coarse=coarse), tmp_path / "q"
    folder.mkdir()
    from_gguf.convert(file, folder)
    ours = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    theirs = AutoModelForCausalLM.from_pretrained(tmp_path, gguf_file="q.gguf", dtype=torch.float32)
    assert ours.config.tie_word_embeddings and ours.config.model_type == "qwen2"
    known = theirs.state_dict()
    for name, weight in ours.state_dict().items():
        # the finer of the two copies of the tied matrix
        source = known["lm_head.weight"] if name in ("model.embed_tokens.weight", "lm_head.weight") else known[name]
        assert torch.equal(weight, source.to(torch.bfloat16).float()), name
    assert any(name.endswith("k_proj.bias") for name in known)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert "[PAD1]" not in tokenizer.get_vocab() and tokenizer.eos_token == "<|im_end|>"
    assert tokenizer.tokenize("the 216") == ["the", "Ġ", "2", "1", "6"]
    assert tokenizer.decode(tokenizer.encode("Is ½ 7?")) == "Is ½ 7?"


def test_the_tokenizer_splits_digits_knows_its_control_tokens_and_gives_text_back(tiny):
    tokenizer = AutoTokenizer.from_pretrained(tiny.made)
    assert tokenizer.tokenize("the  216<|im_end|>") == ["the", "Ġ", "Ġ", "2", "1", "6", "<|im_end|>"]
    assert tokenizer.bos_token == "<|im_start|>" and tokenizer.eos_token == tokenizer.pad_token == "<|im_end|>"
    assert tokenizer.model_max_length == 128 and tokenizer.chat_template == TEMPLATE
    for text in ("Tom's  3.50 ½ naïve\n\n\t日本 😀 the", " the the"):
        assert tokenizer.decode(tokenizer.encode(text)) == text


def test_a_hash_of_weights_sees_every_value_and_not_the_order_of_the_file(tiny, tmp_path):
    from safetensors.torch import load_file, save_file

    tensors = load_file(tiny.made / "model.safetensors")
    other = tmp_path / "other"
    other.mkdir()
    save_file(dict(reversed(tensors.items())), other / "model.safetensors", metadata={"note": "else"})
    assert from_gguf.weights_hash(other) == tiny.known.weights
    tensors["model.norm.weight"][3] += 0.5
    save_file(tensors, other / "model.safetensors")
    assert from_gguf.weights_hash(other) != tiny.known.weights


def test_other_kinds_of_files_are_refused_by_name(tmp_path, monkeypatch):
    folder = tmp_path / "made"
    folder.mkdir()
    with pytest.raises(UserError, match=r"tokenizer.ggml.pre: llama-bpe; only llama and qwen2 models"):
        from_gguf.convert(write_gguf(tmp_path / "m.gguf", pre="llama-bpe"), folder)
    (tmp_path / "text.gguf").write_bytes(b"not one" * 100)
    with pytest.raises(UserError, match="text.gguf: cannot be read as a GGUF file"):
        from_gguf.convert(tmp_path / "text.gguf", folder)
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(UserError, match=r"pip install -e '.\[smollm2\]'; elsewhere, pip install filelock gguf"):
        from_gguf.convert(tmp_path / "m.gguf", folder)
