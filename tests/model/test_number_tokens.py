"""Number tokens: groups of digits are single tokens, other text is cut as before, rows start from digits and are kept."""

import pytest
import torch
from toys import LORA, PROMPT, moved, opened
from transformers import AutoModelForCausalLM, AutoTokenizer

from ruplar.errors import UserError
from ruplar.model.embeddings import number_row
from ruplar.model.exported import export_model
from ruplar.model.load import load_backbone
from ruplar.model.number_tokens import GROUPS, number_ids, with_number_tokens
from ruplar.model.settings import BackboneConfig
from ruplar.model.store import Model, load_model, load_start, save_model
from ruplar.model.tokenizers import load_tokenizer
from ruplar.problems.word_problems import generate

QUESTION = "the 216 apples and 7 more: how many of 1234?"


def pieces(tokenizer, text):
    return tokenizer.convert_ids_to_tokens(tokenizer.encode(text, add_special_tokens=False))


def trained(config: BackboneConfig, seed: int = 1, method: str = "ruplar") -> Model:
    return moved(opened(method, **config.model_dump()), seed)


def logits(model, ids) -> torch.Tensor:
    with torch.no_grad():
        return model(input_ids=torch.tensor([ids])).logits


def test_numbers_are_cut_from_the_left_into_groups_of_three(digit_tokenizer):
    made = with_number_tokens(digit_tokenizer)
    assert pieces(digit_tokenizer, "1234") == ["1", "2", "3", "4"], "the tokenizer that was given stays as it is"
    assert pieces(made, "1234") == ["123", "4"] and pieces(made, "1234567") == ["123", "456", "7"]
    assert pieces(made, "the 7, 42, 007 or 3.50") == [
        *("the", "Ġ", "7", ",", "Ġ", "42", ",", "Ġ", "007", "Ġ", "o", "r", "Ġ", "3", ".", "50")
    ]
    # 100 groups of two and 1000 of three, after the 260 letters and merges and the two control tokens
    assert len(GROUPS) == 1100 and len(digit_tokenizer) == 262 and sorted(number_ids(made)) == list(range(262, 1362))
    assert made.decode(made.encode("12345 ½ the")) == "12345 ½ the"


def test_other_text_is_cut_as_before_other_scripts_digits_included(digit_tokenizer):
    made = with_number_tokens(digit_tokenizer)
    questions = [example.question for example in generate(200, 1)]
    bare = ["".join(c for c in q if c not in "0123456789") for q in questions]
    for text in [*bare, "½½ ٣٤٥ x²³ <|end|>", "  \n\t the"]:
        assert made.encode(text) == digit_tokenizer.encode(text)
    for text in questions:
        # between the numbers nothing changes either: the same pieces once groups are spelled out
        spelled = [d for p in pieces(made, text) for d in (p if p.isdigit() and p.isascii() else [p])]
        assert spelled == pieces(digit_tokenizer, text)


@pytest.mark.parametrize("cutter", ["gpt2", "qwen"])
def test_other_ways_to_cut_text_are_extended_too(digit_tokenizer, cutter):
    from tokenizers import Regex, pre_tokenizers

    qwen = r"(?i:'s|'t)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    split = pre_tokenizers.Split(Regex(qwen), behavior="isolated")
    digit_tokenizer.backend_tokenizer.pre_tokenizer = {
        "gpt2": pre_tokenizers.ByteLevel(add_prefix_space=False),
        "qwen": pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]),
    }[cutter]
    made = with_number_tokens(digit_tokenizer)
    # with GPT-2's a space belonged to the number; it is now a token of its own, as with Llama-3
    assert pieces(made, "the 1234") == ["the", "Ġ", "123", "4"]
    assert made.encode("It's the ½!\n\n ok") == digit_tokenizer.encode("It's the ½!\n\n ok")


@pytest.mark.slow
def test_a_tokenizer_that_has_such_groups_or_cannot_have_them_is_refused(llama3_tokenizer):
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    for tokenizer in (llama3_tokenizer, load_tokenizer("embedded")):
        with pytest.raises(UserError, match="backbone.number_tokens: .*already.*nothing to add. Remove the setting"):
            with_number_tokens(tokenizer)
    words = Tokenizer(models.WordLevel({"the": 0, "[UNK]": 1}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    with pytest.raises(UserError, match="backbone.number_tokens: .*not a byte-level BPE"):
        with_number_tokens(PreTrainedTokenizerFast(tokenizer_object=words))


def test_a_row_is_made_of_its_digits_in_their_order():
    # three features: one that all digits share, and one each for the digits 1 and 2
    digits = torch.zeros(10, 3)
    digits[:, 0] = 1
    digits[1, 1] = digits[2, 2] = 1
    shared = torch.tensor([1, 0.1, 0.1])  # the mean of the ten rows
    one, two = digits[1] - shared, digits[2] - shared
    raw = shared + (2 * one + 1 * two) / 5**0.5  # places weigh 1 and 0.5, brought to unit norm: 2/√5 and 1/√5
    length = (8 * 1 + 2 * 2**0.5) / 10  # eight rows of length 1, two of √2
    torch.testing.assert_close(number_row(digits, "12"), raw * length / raw.norm())
    assert not torch.allclose(number_row(digits, "12"), number_row(digits, "21"))
    assert not torch.allclose(number_row(digits, "1" * 2), number_row(digits, "1" * 3))


@pytest.mark.slow
@pytest.mark.parametrize("digit_base", [True, False], indirect=True, ids=["tied", "untied"])
def test_rows_are_the_same_at_every_load_and_the_old_ones_stay(digit_base):
    config = BackboneConfig(name=str(digit_base), number_tokens=True, lora=None)
    first, second = (load_backbone(config, PROMPT) for _ in range(2))
    plain = load_backbone(config.model_copy(update={"number_tokens": False}), PROMPT)
    for matrix in ("embedding", "head"):
        rows, again, before = (getattr(b, matrix).weight.detach() for b in (first, second, plain))
        assert torch.equal(rows, again) and torch.equal(rows[:262], before[:262]) and len(rows) == 1364
        known = torch.stack([rows[first.tokenizer.convert_tokens_to_ids(str(d))] for d in range(10)])
        torch.testing.assert_close(rows[first.tokenizer.convert_tokens_to_ids("216")], number_row(known, "216"))
        assert len(rows[262:1362].unique(dim=0)) == 1100
    # the markers come after the groups
    assert (first.think_id, first.end_think_id) == (1362, 1363) and len(first.added) == 1102


@pytest.mark.slow
@pytest.mark.parametrize(
    ("digit_base", "lora"),
    [(True, LORA), (False, LORA), (True, LORA.model_copy(update={"embedding": True})), (False, None)],
    indirect=["digit_base"],
    ids=["tied", "untied", "embedding", "all weights"],
)
def test_trained_rows_are_saved_read_back_and_exported_as_a_plain_model(digit_base, tmp_path, lora):
    model = trained(BackboneConfig(name=str(digit_base), number_tokens=True, lora=lora))
    start = load_backbone(BackboneConfig(name=str(digit_base), number_tokens=True, lora=None), PROMPT)
    ids = model.backbone.tokenizer.encode(QUESTION)
    row = model.backbone.tokenizer.convert_tokens_to_ids("216")
    with torch.no_grad():
        moved = model.backbone.embedding(torch.tensor([row])) - start.embedding(torch.tensor([row]))
    assert moved.abs().max() > 1e-3
    save_model(tmp_path / "run", model)
    export_model(tmp_path / "run", tmp_path / "plain")
    wanted, found = logits(model.backbone.model, ids), load_model(tmp_path / "run")
    torch.testing.assert_close(logits(found.backbone.model, ids), wanted, atol=1e-6, rtol=0)
    assert found.backbone.tokenizer.encode(QUESTION) == ids and found.metadata.backbone.number_tokens
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "plain")
    plain = AutoModelForCausalLM.from_pretrained(tmp_path / "plain", dtype=torch.float32).eval()
    assert tokenizer.encode(QUESTION) == ids and tokenizer.get_vocab() == model.backbone.tokenizer.get_vocab()
    torch.testing.assert_close(logits(plain, ids), wanted, atol=1e-4, rtol=1e-4)
    again = load_model(tmp_path / "plain")
    assert again.backbone.tokenizer.encode(QUESTION) == ids and again.backbone.added == ()


@pytest.mark.slow
def test_a_run_from_another_keeps_its_number_tokens_and_trains_their_rows_again(digit_base, tmp_path):
    first = trained(BackboneConfig(name=str(digit_base), number_tokens=True, lora=LORA), method="cot")
    save_model(tmp_path / "cot", first)
    config = BackboneConfig(name=str(digit_base), number_tokens=True, lora=LORA, init=str(tmp_path / "cot"))
    second = trained(config, seed=2)
    assert set(number_ids(second.backbone.tokenizer)) == set(second.backbone.added)
    save_model(tmp_path / "second", second)
    ids, found = second.backbone.tokenizer.encode(QUESTION), load_model(tmp_path / "second")
    ours, theirs = (logits(one.backbone.model, ids) for one in (found, second))
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)
    # a run without them can get them afterwards; its markers keep their ids, 262 and 263
    save_model(tmp_path / "digits", trained(BackboneConfig(name=str(digit_base), lora=LORA), method="cot"))
    later = load_start(config.model_copy(update={"init": str(tmp_path / "digits")}), PROMPT)
    assert pieces(later.tokenizer, "1234") == ["123", "4"] and later.think_id == 262
    assert sorted(later.added) == list(range(264, 1364)) == sorted(number_ids(later.tokenizer))
    later.tokenizer.save_pretrained(tmp_path / "kept")
    assert AutoTokenizer.from_pretrained(tmp_path / "kept").get_vocab() == later.tokenizer.get_vocab()
