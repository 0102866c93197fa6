import random

import pytest
from cases import cases
from huggingface_hub import constants
from transformers import AutoTokenizer

from ruplar.errors import UserError
from ruplar.model import tokenizers
from ruplar.model.tokenizers import llama3_controls, llama3_file, load_tokenizer, read_ranks


@pytest.mark.slow
def test_llama_3_has_its_control_tokens_at_their_ids(llama3_tokenizer):
    known = cases(__file__, "llama_3_controls")
    assert {t: llama3_tokenizer.convert_tokens_to_ids(t) for t in known} == known
    assert len(llama3_tokenizer) == 128256 and len(set(llama3_controls())) == 256
    assert (llama3_tokenizer.eos_token_id, llama3_tokenizer.pad_token_id) == (128009, 128001)


@pytest.mark.slow
def test_llama_3_reads_as_the_original_tokenizer_does(llama3_tokenizer):
    tiktoken = pytest.importorskip("tiktoken")
    pattern = (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
        r"|\s*[\r\n]+|\s+(?!\S)|\s+"
    )
    ranks = read_ranks(llama3_file())
    original = tiktoken.Encoding("llama-3", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
    texts = ["Tom's 3 dogs ate $1,400.50!\n\n  <<20*1.20=24>> #### 24", "naïve 数学 🙂\t\r\n x", "don't  stop   "]
    draw = random.Random(0)
    texts += ["".join(draw.choices("ab 12.=*+\n'sé🙂", k=40)) for _ in range(200)]
    for text in texts:
        ids = llama3_tokenizer.encode(text, add_special_tokens=False)
        assert ids == original.encode(text, disallowed_special=())
        assert llama3_tokenizer.decode(ids) == text


def test_llama_3_without_its_package_says_what_to_install(monkeypatch):
    monkeypatch.setattr(tokenizers.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match="pip install --no-deps llama-models"):
        load_tokenizer("llama-3")


def test_a_hub_name_without_a_network_fails_quickly(monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(UserError, match="'nobody/no-such-model' is not a local folder, and .* Hub cannot be reached"):
        load_tokenizer("nobody/no-such-model")


def test_what_the_hub_refuses_is_passed_on_in_one_line(monkeypatch):
    def refuse(name, **settings):
        raise OSError("nobody/gated is a gated repo.\nTraceback of many lines")

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(tokenizers, "responds", lambda origin: True)
    monkeypatch.setattr(AutoTokenizer, "from_pretrained", refuse)
    with pytest.raises(UserError) as caught:
        load_tokenizer("nobody/gated")
    assert "refused it: nobody/gated is a gated repo. Check the name" in str(caught.value)
    assert "Traceback" not in str(caught.value)


@pytest.mark.parametrize("name", ["./no/such/folder", "/no/such/folder", "a/b/c"])
def test_a_missing_path_is_not_looked_up_on_the_hub(name, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="no folder"):
        load_tokenizer(name)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [("config.json", "{}", "has no tokenizer"), ("tokenizer.json", "{ not json", "cannot be read")],
)
def test_a_folder_that_holds_no_known_tokenizer_is_refused(tmp_path, name, text, said):
    (tmp_path / name).write_text(text)
    with pytest.raises(UserError, match=said):
        load_tokenizer(tmp_path)
