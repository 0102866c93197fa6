import io

import pytest
from rich.console import Console

from ruplar.domains import arithmetic
from ruplar.errors import UserError
from ruplar.plugins import make
from ruplar.preview import preview, render
from ruplar.priors.base import PriorTable
from ruplar.types import Span


class WholeStep:
    """One span a step."""

    def cut(self, step, domain):
        return [Span(step, tuple(domain.symbols(step)), tuple(domain.result(step)))]


class LettersTokenizer:
    """Every character is a token; its id is its code point."""

    name_or_path = "letters"

    def encode(self, text, add_special_tokens=False):
        return [ord(c) for c in text]

    def decode(self, ids):
        return "".join(map(chr, ids))

    def convert_ids_to_tokens(self, token_id):
        return f"<0x{token_id:X}>"


def show(chain, prior="mixture", tokenizer=None, spans=None, **settings):
    tokenizer = tokenizer or LettersTokenizer()
    table = PriorTable(make("priors", prior, settings), lambda text: tokenizer.encode(text, add_special_tokens=False))
    domain = arithmetic.Domain(arithmetic.Config())
    return preview(chain, tokenizer=tokenizer, domain=domain, spans=spans or WholeStep(), prior_table=table)


def written(shown, **settings) -> str:
    console = Console(file=io.StringIO(), width=100, **settings)
    render(shown, console)
    return console.file.getvalue()


def test_a_chain_is_shown_step_by_step_with_latents_counted_through():
    shown = show("<<3+4=7>> so <<7*2=4>>")
    assert [step["step"] for step in shown["steps"]] == ["3+4=7", "7*2=4"]
    assert [span["latent"] for step in shown["steps"] for span in step["spans"]] == [1, 2]
    # 0.2 over 3 + 4 =, 0.8 on 7; equal ones in the order of their ids + 3 4 =
    assert shown["steps"][0]["spans"][0]["tokens"] == [
        {"token": "7", "id": 55, "prob": 0.8, "role": "result", "kept": True},
        {"token": "+", "id": 43, "prob": 0.05, "role": "operand", "kept": True},
        {"token": "3", "id": 51, "prob": 0.05, "role": "operand", "kept": True},
        {"token": "4", "id": 52, "prob": 0.05, "role": "operand", "kept": True},
        {"token": "=", "id": 61, "prob": 0.05, "role": "operand", "kept": True},
    ]
    assert (shown["tokenizer"], shown["prior"], shown["dynamic"]) == ("letters", "mixture", False)


def test_a_prior_of_one_token_has_no_entropy_and_no_minus_zero():
    shown = show(["7"])
    assert str(shown["steps"][0]["spans"][0]["entropy"]) == "0.0"
    assert "entropy 0.000 nats" in written(shown)


def test_what_the_focus_leaves_out_is_marked():
    # 0.04 over the four operands 1 + 2 = is 0.01 each: not above the threshold
    shown = show("<<1+2=7>>", operand_share=0.04)
    assert [t["kept"] for t in shown["steps"][0]["spans"][0]["tokens"]] == [True, False, False, False, False]
    assert written(shown).count("operand, below focus") == 4


def test_a_chain_without_a_step_says_how_steps_are_written():
    with pytest.raises(
        UserError, match=r"'So he has 7 left.' has no step. The domain 'arithmetic' reads .*<<20\*1.20=24>>"
    ):
        show("So he has 7 left.")
    with pytest.raises(UserError, match="has no step"):
        show([])


def test_a_span_the_tokenizer_cannot_write_names_its_latent():
    class Blank:
        def cut(self, step, domain):
            return [Span(step, ()), Span(step, ())]

    with pytest.raises(UserError, match="latent 1: span '3\\+4=7' has no symbol"):
        show("<<3+4=7>>", spans=Blank())


def test_the_page_is_legible_without_colour():
    text = written(show("<<3+4=7>>"), color_system=None)
    assert "step 1  3+4=7" in text and "latent 1" in text
    rows = [line.split() for line in text.splitlines() if "result" in line or "operand" in line]
    # token, bar, probability, id, role; 0.8 * 24 = 19.2 columns
    assert rows[0] == ["7", "█" * 19 + "▏", "0.8000", "55", "result"]
    assert rows[1] == ["+", "█▏", "0.0500", "43", "operand"]


def test_a_step_without_a_span_is_shown_and_takes_no_latent():
    # a blank step has no symbol, so the plug-in cuts nothing from it
    shown = show([" ", "3+4=7"], spans=make("spans", "step"))
    assert [[span["latent"] for span in step["spans"]] for step in shown["steps"]] == [[], [1]]
    assert "no latent" in written(shown)


def test_a_fresh_prior_says_that_it_is_one_draw():
    assert "one draw" in written(show("<<3+4=7>>", prior="gumbel"))
    assert "one draw" not in written(show("<<3+4=7>>"))
