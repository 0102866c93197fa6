"""The tokenizers of the dates and logic domains: every symbol is one token, the same wherever it stands."""

import json

import pytest

from ruplar import plugins
from ruplar.embedded import make_tokenizer
from ruplar.errors import UserError
from ruplar.model.tokenizers import DOMAINS, load_tokenizer, of_domain
from ruplar.problems import date_problems, logic_problems

GENERATORS = {"dates": date_problems, "logic": logic_problems}


@pytest.fixture(scope="module", params=sorted(GENERATORS))
def domain(request):
    return request.param


def ids(tokenizer, text):
    return tokenizer.encode(text, add_special_tokens=False)


def test_every_symbol_of_a_chain_is_one_token_and_the_text_uses_the_same(domain):
    tokenizer, rules = load_tokenizer(f"embedded-{domain}"), plugins.make("domains", domain)
    for example in GENERATORS[domain].generate(150, 123):
        for step in example.steps:
            if domain == "dates" and "/" in step:  # a date in figures is told by its month's name
                continue
            written = ids(tokenizer, f"<<{step}>>")
            for symbol in rules.symbols(step):
                (one,) = ids(tokenizer, symbol)
                assert one in written, (symbol, step)


def test_any_text_comes_back_as_it_went_in(domain):
    tokenizer = load_tokenizer(f"embedded-{domain}")
    texts = [e.question + e.chain + e.answer for e in GENERATORS[domain].generate(50, 9)]
    for text in [*texts, "Ünïcode – 12345 \\boxed{7}  \n terpus's day", "Is Max an impus or a wumpus?"]:
        assert tokenizer.decode(tokenizer.encode(text, add_special_tokens=False, split_special_tokens=True)) == text


def test_made_again_it_equals_the_shipped_one(domain, tmp_path):
    make_tokenizer.write(tmp_path, domain)
    for name in ("tokenizer.json", "tokenizer_config.json", "config.json"):
        assert (tmp_path / name).read_text() == (DOMAINS[f"embedded-{domain}"] / name).read_text(), f"{name} differs"


def test_its_size_is_a_multiple_of_64_and_the_models_vocabulary(domain):
    tokenizer = load_tokenizer(f"embedded-{domain}")
    shape = json.loads((DOMAINS[f"embedded-{domain}"] / "config.json").read_text())
    assert len(tokenizer) == tokenizer.vocab_size == shape["vocab_size"] and len(tokenizer) % 64 == 0


def test_months_and_years_are_single_tokens():
    tokenizer = load_tokenizer("embedded-dates")
    pieces = [tokenizer.decode([i]) for i in ids(tokenizer, "<<Jul 8, 1972 - 1 year = Jul 8, 1971>>")]
    assert pieces == ["<<", "Jul", " ", "8", ", ", "1972", " ", "-", " ", "1", " ", "year", " ", "=", " ", "Jul", " ", "8", ", ", "1971", ">>"]  # fmt: skip


def test_a_prior_of_the_dates_domain_shows_months_days_and_years():
    from ruplar.model.prompt import PlainText
    from ruplar.preview import preview
    from ruplar.priors.base import PriorTable

    tokenizer = load_tokenizer(of_domain("dates"))
    table = PriorTable(plugins.make("priors", "mixture"), PlainText(tokenizer))
    rules, cutter = plugins.make("domains", "dates"), plugins.make("spans", "step")
    chain = "<<7/8/1972 - 1 year = 7/8/1971>>"
    shown = preview(chain, tokenizer=tokenizer, domain=rules, spans=cutter, prior_table=table)
    [span] = shown.steps[0].spans
    # 0.8 over three tokens of the result; 0.2 over - 1 year = 1972, which are none of it
    expected = dict.fromkeys(("Jul", "8", "1971"), 0.8 / 3) | dict.fromkeys(("-", "1", "year", "=", "1972"), 0.04)
    assert {t.token: t.prob for t in span.tokens} == pytest.approx(expected)


def test_a_domain_without_a_tokenizer_of_its_own_has_the_common_one():
    assert (of_domain("dates"), of_domain("arithmetic"), of_domain("my.domain")) == (
        "embedded-dates",
        "embedded",
        "embedded",
    )


def test_a_shape_without_weights_says_how_to_get_some():
    from ruplar.model.backbone import load_backbone
    from ruplar.model.settings import BackboneConfig, PromptConfig

    with pytest.raises(UserError, match="ruplar train logic-cot"):
        load_backbone(BackboneConfig(name="embedded-logic"), PromptConfig())
    made = load_backbone(BackboneConfig(name="embedded-logic", weights="random", lora=None), PromptConfig())
    assert made.embedding_weight.shape[0] == 384
