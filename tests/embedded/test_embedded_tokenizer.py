"""The shipped tokenizer: any text survives, numbers and signs are one token each, and it can be made again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer

from ruplar.embedded import TOKENIZER, make_tokenizer
from ruplar.problems import word_problems

SHIPPED = AutoTokenizer.from_pretrained(TOKENIZER, local_files_only=True)


@pytest.fixture
def tokenizer():
    return SHIPPED


def pieces(tokenizer, text):
    return [tokenizer.decode([i]) for i in tokenizer.encode(text, add_special_tokens=False)]


@given(st.text())
def test_any_text_comes_back_as_it_went_in(text):
    ids = SHIPPED.encode(text, add_special_tokens=False, split_special_tokens=True)
    assert SHIPPED.decode(ids) == text


def test_vocabulary_is_small_and_a_multiple_of_64(tokenizer):
    assert len(tokenizer) == tokenizer.vocab_size == 2304 == 36 * 64
    assert sorted(tokenizer.get_vocab().values()) == list(range(2304))


def test_every_group_of_one_to_three_digits_is_one_token(tokenizer):
    groups = [f"{n:0{width}d}" for width in (1, 2, 3) for n in range(10**width)]
    assert len(groups) == 1110
    assert all(len(tokenizer.encode(g, add_special_tokens=False)) == 1 for g in groups)


def test_longer_numbers_are_cut_from_the_left_and_carry_no_space(tokenizer):
    assert pieces(tokenizer, "1234567") == ["123", "456", "7"]
    assert pieces(tokenizer, "has 12 coins") == ["h", "as", " ", "12", " coins"]


def test_a_chain_is_cut_into_numbers_and_signs(tokenizer):
    chain = "<<600*30/100=180>> <<180-5+2=177>>"
    first = ["<<", "600", "*", "30", "/", "100", "=", "180", ">>"]
    assert pieces(tokenizer, chain) == [*first, " <<", "180", "-", "5", "+", "2", "=", "177", ">>"]
    assert pieces(tokenizer, "1.5%") == ["1", ".", "5", "%"]


def test_the_answer_is_three_ordinary_tokens(tokenizer):
    assert pieces(tokenizer, "\\boxed{42}") == ["\\boxed{", "42", "}"]
    assert pieces(tokenizer, "is \\boxed{42}")[-3:] == ["\\boxed{", "42", "}"]
    assert not set(tokenizer.encode("\\boxed{42}", add_special_tokens=False)) & set(tokenizer.all_special_ids)


def test_control_tokens_are_single_and_special(tokenizer):
    ids = [tokenizer.encode(t, add_special_tokens=False) for t in make_tokenizer.SPECIAL]
    assert ids == [[0], [1], [2], [3], [4], [5]]
    assert set(tokenizer.all_special_ids) == {0, 1, 2, 3, 4, 5}
    assert (tokenizer.pad_token, tokenizer.eos_token) == ("<|pad|>", "<|end|>")


def test_user_text_cannot_write_a_control_token(tokenizer):
    ids = tokenizer.encode("a<|end|><think>", add_special_tokens=False, split_special_tokens=True)
    assert not set(ids) & set(tokenizer.all_special_ids)


def test_chat_template_writes_turns(tokenizer):
    turns = [{"role": "user", "content": "2+2?"}]
    assert tokenizer.apply_chat_template(turns, tokenize=False) == "<|user|>2+2?<|end|>"
    opened = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
    assert opened == "<|user|>2+2?<|end|><|assistant|>"
    turns.append({"role": "assistant", "content": "4"})
    assert tokenizer.apply_chat_template(turns, tokenize=False) == "<|user|>2+2?<|end|><|assistant|>4<|end|>"
    with pytest.raises(Exception, match="user and assistant, not system"):
        tokenizer.apply_chat_template([{"role": "system", "content": "x"}], tokenize=False)


@pytest.mark.parametrize("families", [word_problems.TRAIN_FAMILIES, word_problems.HELD_OUT])
def test_every_word_of_the_generator_is_one_token(tokenizer, families):
    for e in word_problems.generate(500, 123, families=families):
        words = [piece for piece in pieces(tokenizer, e.question) if piece.strip().isalpha()]
        assert sorted(w.strip() for w in words) == sorted(words_of(e.question))


def words_of(question):
    """The words of a question, possessives and marks taken off."""
    return "".join(c if c.isalpha() or c == "'" else " " for c in question).replace("'s", "").split()


def test_prompts_and_chains_are_short(tokenizer):
    examples = list(word_problems.generate(1000, 5))
    prompt = sum(len(tokenizer.encode(e.question)) for e in examples) / 1000
    chain = sum(len(tokenizer.encode(e.chain)) for e in examples) / 1000
    # measured over 1,000: 41.3 and 23.5
    assert 20 < prompt < 60 and 18 < chain < 28


@pytest.mark.slow
def test_made_again_it_equals_the_shipped_one(tmp_path):
    make_tokenizer.write(tmp_path, "word-problems")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        assert (tmp_path / name).read_text() == (TOKENIZER / name).read_text(), f"{name} differs; see make_tokenizer"
