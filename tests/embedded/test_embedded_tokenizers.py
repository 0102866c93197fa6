"""The shipped tokenizers: any text survives, every symbol of a domain is one token, and they can be made again."""

import json

import pytest
from cases import cases
from hypothesis import given
from hypothesis import strategies as st
from scripts import script

from ruplar import plugins
from ruplar.embedded import TOKENIZER
from ruplar.errors import UserError
from ruplar.model.tokenizers import DOMAINS, load_tokenizer, of_domain
from ruplar.problems import date_problems, logic_problems, word_problems

make_tokenizer = script("make_tokenizer")
GENERATORS = {"dates": date_problems, "logic": logic_problems}
FOLDERS = {"word-problems": TOKENIZER, **{domain: DOMAINS[f"embedded-{domain}"] for domain in GENERATORS}}
SHIPPED = {"word-problems": load_tokenizer("embedded")}
SHIPPED |= {domain: load_tokenizer(f"embedded-{domain}") for domain in GENERATORS}
each = pytest.mark.parametrize("name", FOLDERS)


@pytest.fixture
def tokenizer():
    return SHIPPED["word-problems"]


def ids(tokenizer, text):
    return tokenizer.encode(text, add_special_tokens=False)


def pieces(tokenizer, text):
    return [tokenizer.decode([i]) for i in ids(tokenizer, text)]


@each
@given(text=st.text())
def test_any_text_comes_back_as_it_went_in(name, text):
    tokenizer = SHIPPED[name]
    assert tokenizer.decode(tokenizer.encode(text, add_special_tokens=False, split_special_tokens=True)) == text


@each
def test_the_vocabulary_is_a_multiple_of_64_and_the_models(name):
    tokenizer, folder = SHIPPED[name], FOLDERS[name]
    shape = folder if name in GENERATORS else folder.parent / "backbone"
    size = json.loads((shape / "config.json").read_text())["vocab_size"]
    assert len(tokenizer) == tokenizer.vocab_size == size and size % 64 == 0
    assert sorted(tokenizer.get_vocab().values()) == list(range(size))


@each
@pytest.mark.slow
def test_made_again_it_equals_the_shipped_one(name, tmp_path):
    make_tokenizer.write(tmp_path, name)
    for file in tmp_path.iterdir():
        assert file.read_text() == (FOLDERS[name] / file.name).read_text(), f"{file.name} differs; see make_tokenizer"


@pytest.mark.parametrize("domain", GENERATORS)
def test_every_symbol_of_a_chain_is_one_token_and_the_text_uses_the_same(domain):
    tokenizer, rules = SHIPPED[domain], plugins.make("domains", domain)
    for example in GENERATORS[domain].generate(150, 123):
        for step in example.steps:
            if domain == "dates" and "/" in step:  # the symbols of 05/20/2010 have the month's name
                continue
            written = ids(tokenizer, f"<<{step}>>")
            for symbol in rules.symbols(step):
                (one,) = ids(tokenizer, symbol)
                assert one in written, (symbol, step)


def test_a_prior_of_the_dates_domain_shows_months_days_and_years():
    from ruplar.model.prompt import PlainText
    from ruplar.preview import preview
    from ruplar.priors.base import PriorTable

    tokenizer = load_tokenizer(of_domain("dates"))
    table = PriorTable(plugins.make("priors", "mixture"), PlainText(tokenizer))
    rules, cutter = plugins.make("domains", "dates"), plugins.make("spans", "step")
    chain = "<<7/8/1972 - 1 year = 7/8/1971>>"
    shown = preview(chain, tokenizer=tokenizer, domain=rules, spans=cutter, prior_table=table)
    [span] = shown["steps"][0]["spans"]
    # 0.8 over three tokens of the result; 0.2 over - 1 year = 1972, which are none of it
    expected = dict.fromkeys(("Jul", "8", "1971"), 0.8 / 3) | dict.fromkeys(("-", "1", "year", "=", "1972"), 0.04)
    assert {t["token"]: t["prob"] for t in span["tokens"]} == pytest.approx(expected, abs=1e-6)


def test_a_domain_without_a_tokenizer_of_its_own_has_the_common_one():
    assert [of_domain(name) for name in ("arithmetic", "my.domain")] == ["embedded", "embedded"]


def test_a_shape_without_weights_says_how_to_get_some():
    from ruplar.model.load import load_backbone
    from ruplar.model.settings import BackboneConfig, PromptConfig

    with pytest.raises(UserError, match="ruplar train logic-cot"):
        load_backbone(BackboneConfig(name="embedded-logic"), PromptConfig())
    made = load_backbone(BackboneConfig(name="embedded-logic", weights="random", lora=None), PromptConfig())
    assert made.embedding_weight.shape[0] == 384


def test_every_group_of_one_to_three_digits_is_one_token(tokenizer):
    groups = [f"{n:0{width}d}" for width in (1, 2, 3) for n in range(10**width)]
    assert all(len(ids(tokenizer, group)) == 1 for group in groups)


@pytest.mark.parametrize(("text", "expected"), cases(__file__, "cuts"))
def test_numbers_are_cut_from_the_left_and_signs_stand_alone(tokenizer, text, expected):
    assert pieces(tokenizer, text)[-len(expected) :] == expected
    assert not set(ids(tokenizer, text)) & set(tokenizer.all_special_ids)


def test_the_chat_template_writes_turns_of_user_and_assistant_only(tokenizer):
    turns = [{"role": "user", "content": "2+2?"}, {"role": "assistant", "content": "4"}]
    assert tokenizer.apply_chat_template(turns, tokenize=False) == "<|user|>2+2?<|end|><|assistant|>4<|end|>"
    with pytest.raises(Exception, match="user and assistant, not system"):
        tokenizer.apply_chat_template([{"role": "system", "content": "x"}], tokenize=False)


def test_control_tokens_are_single_and_special(tokenizer):
    assert [ids(tokenizer, token) for token in make_tokenizer.SPECIAL] == [[0], [1], [2], [3], [4], [5]]
    assert set(tokenizer.all_special_ids) == {0, 1, 2, 3, 4, 5}
    assert (tokenizer.pad_token, tokenizer.eos_token) == ("<|pad|>", "<|end|>")


@pytest.mark.parametrize("families", [word_problems.TRAIN_FAMILIES, word_problems.HELD_OUT])
def test_every_word_of_the_generator_is_one_token(tokenizer, families):
    for e in word_problems.generate(500, 123, families=families):
        words = [piece for piece in pieces(tokenizer, e.question) if piece.strip().isalpha()]
        assert sorted(w.strip() for w in words) == sorted(words_of(e.question))


def words_of(question):
    """The words of a question, possessives and marks taken off."""
    return "".join(c if c.isalpha() or c == "'" else " " for c in question).replace("'s", "").split()
