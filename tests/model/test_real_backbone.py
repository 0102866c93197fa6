"""SmolLM2-135M-Instruct as it comes out of the GGUF file: its tokenizer, its number tokens, and that it can talk."""

import json

import pytest
import torch

from ruplar.model.embeddings import number_row
from ruplar.model.fetch import KNOWN, flaw
from ruplar.model.load import load_backbone
from ruplar.model.number_tokens import GROUPS, number_ids, with_number_tokens
from ruplar.model.settings import BackboneConfig, PromptConfig
from ruplar.model.tokenizers import load_tokenizer
from ruplar.problems.word_problems import generate

pytestmark = pytest.mark.slow

NAME = "smollm2-135m-instruct"
SYSTEM = "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"


@pytest.fixture(scope="module")
def tokenizer(smollm2):
    return load_tokenizer(NAME)


@pytest.fixture(scope="module", params=["invented", "gsm8k-train"])
def questions(request, data, benchmark_data) -> list[str]:
    """The first 1,000 questions of GSM8K; and without its file, our few and 500 word problems."""
    folder = data if request.param == "invented" else benchmark_data("gsm8k-train")
    with (folder / "gsm8k-train.jsonl").open(encoding="utf-8") as lines:
        read = [json.loads(line)["question"] for _, line in zip(range(1000), lines, strict=False)]
    return read if request.param == "gsm8k-train" else [*read, *(e.question for e in generate(500, 1))]


def test_weights_and_tokenizer_are_those_on_record(smollm2):
    assert flaw(smollm2, KNOWN[NAME]) is None


def test_the_tokenizer_is_smollm2s(tokenizer, questions):
    assert len(tokenizer) == 49152 and tokenizer.eos_token_id == tokenizer.pad_token_id == 2
    assert (tokenizer.bos_token, tokenizer.eos_token) == ("<|im_start|>", "<|im_end|>")
    assert tokenizer.tokenize("Tom's 1234 apples\n  cost $3.50") == [
        *("Tom", "'s", "Ġ", "1", "2", "3", "4", "Ġapples", "ĊĠ", "Ġcost", "Ġ$", "3", ".", "5", "0")
    ]
    asked = [{"role": "user", "content": "Hello"}]
    shown = tokenizer.apply_chat_template(asked, tokenize=False, add_generation_prompt=True)
    assert shown == f"{SYSTEM}<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n"
    assert tokenizer.encode(shown)[:2] == [1, 9690] and tokenizer.encode(shown).count(1) == 3
    for text in [*questions[:200], "naïve ½ 日本 😀 \t\n\n  x", "<|im_start|>"]:
        assert tokenizer.decode(tokenizer.encode(text)) == text


def test_with_number_tokens_only_numbers_are_cut_otherwise(tokenizer, questions):
    made = with_number_tokens(tokenizer)
    assert sorted(number_ids(made)) == list(range(49152, 50252))
    assert made.tokenize("216, 1234 and 0.75") == ["216", ",", "Ġ", "123", "4", "Ġand", "Ġ", "0", ".", "75"]
    for text in questions:
        bare = "".join(c for c in text if not c.isdigit())
        assert made.encode(bare) == tokenizer.encode(bare)
        pieces = [d for p in made.tokenize(text) for d in (p if p.isdigit() else [p])]
        assert pieces == tokenizer.tokenize(text) and made.decode(made.encode(text)) == text


def test_it_talks_and_its_number_rows_lie_near_their_neighbours(smollm2):
    backbone = load_backbone(BackboneConfig(name=NAME, number_tokens=True, lora=None), PromptConfig(instruction=""))
    prompt = torch.tensor([backbone.prompt("What is the capital of France?").ids])
    said = backbone.model.generate(prompt, max_new_tokens=8, do_sample=False, pad_token_id=2)[0, prompt.shape[1] :]
    assert backbone.tokenizer.decode(said) == "The capital of France is Paris.<|im_end|>"
    rows = backbone.embedding_weight.detach()[number_ids(backbone.tokenizer)]
    near = (rows - rows[GROUPS.index("216")]).norm(dim=-1)
    # the last digit weighs least: 217 is nearer than 226, and 226 nearer than 316
    assert near[GROUPS.index("217")] < near[GROUPS.index("226")] < near[GROUPS.index("316")]
    digits = backbone.embedding_weight.detach()[[backbone.tokenizer.convert_tokens_to_ids(str(d)) for d in range(10)]]
    torch.testing.assert_close(rows[GROUPS.index("216")], number_row(digits, "216"))
    assert rows.norm(dim=-1) == pytest.approx(digits.norm(dim=-1).mean().expand(1100), rel=1e-4)
