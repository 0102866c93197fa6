"""What a terminal shows: priors of a chain, and the thought of an answer."""

import io

import pytest
from rich.console import Console

from ruplar.display import show_answer
from ruplar.domains import arithmetic
from ruplar.errors import UserError
from ruplar.plugins import make
from ruplar.preview import preview, render
from ruplar.priors.base import PriorTable
from ruplar.types import Answer, Latent, Span


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


def test_what_the_focus_leaves_out_is_marked():
    # 0.04 over the four operands 1 + 2 = is 0.01 each: not above the threshold
    shown = show("<<1+2=7>>", operand_share=0.04)
    assert [t["kept"] for t in shown["steps"][0]["spans"][0]["tokens"]] == [True, False, False, False, False]
    assert written(shown).count("operand, below focus") == 4


def test_a_chain_without_a_step_says_how_steps_are_written():
    with pytest.raises(UserError, match=r"'So he has 7 left.' has no step. The domain 'arithmetic' reads .*<<20\*1.2"):
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


def terminal(count: int) -> list[str]:
    latents = tuple(Latent(("7", "8"), (0.75, 0.25), 0.56, 0.0) for _ in range(count))
    console = Console(file=io.StringIO(), width=120)
    show_answer(console, Answer("18", latents=latents, latent_count=count, forwards=5))
    return console.file.getvalue().splitlines()


def test_each_soft_token_has_a_line_and_their_bars_stand_below_each_other():
    lines = terminal(12)
    assert len(lines) == 13 and " ".join(lines[-1].split()) == "answer 18 12 soft tokens, 5 forward passes"
    assert {line.index("█") for line in lines[:-1]} == {6}
    assert [line.split()[0] for line in lines[:-1]] == [f"z{i}" for i in range(1, 13)]
    assert "7 0.75" in lines[0] and "8 0.25" in lines[0] and lines[0].endswith("entropy 0.56")
    assert terminal(1)[0].index("█") == 5


def test_a_soft_token_of_many_tokens_fits_80_columns():
    latent = Latent(("1200", "400", "+", "=", "800", "3"), (0.6, 0.1, 0.1, 0.1, 0.05, 0.05), 1.2, 0.0)
    console = Console(file=io.StringIO(), width=80)
    show_answer(console, Answer("1200", latents=(latent,) * 10, latent_count=10, forwards=13))
    lines = console.file.getvalue().splitlines()
    assert len(lines) == 11 and "1200 0.60  400 0.10  + 0.10  = 0.10  entropy 1.20" in lines[0]
