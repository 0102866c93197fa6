"""What a terminal shows of a thought."""

import io

from rich.console import Console

from ruplar.display import show_answer
from ruplar.types import Answer, Latent


def shown(count: int) -> list[str]:
    latents = tuple(Latent(("7", "8"), (0.75, 0.25), 0.56, 0.0) for _ in range(count))
    console = Console(file=io.StringIO(), width=120)
    show_answer(console, Answer("18", latents=latents, latent_count=count, forwards=5))
    return console.file.getvalue().splitlines()


def test_each_soft_token_has_a_line_and_their_bars_stand_below_each_other():
    lines = shown(12)
    assert len(lines) == 13 and " ".join(lines[-1].split()) == "answer 18 12 soft tokens, 5 forward passes"
    assert {line.index("█") for line in lines[:-1]} == {6}
    assert [line.split()[0] for line in lines[:-1]] == [f"z{i}" for i in range(1, 13)]
    assert "7 0.75" in lines[0] and "8 0.25" in lines[0] and lines[0].endswith("entropy 0.56")
    assert shown(1)[0].index("█") == 5


def test_a_soft_token_of_many_tokens_fits_80_columns():
    latent = Latent(("1200", "400", "+", "=", "800", "3"), (0.6, 0.1, 0.1, 0.1, 0.05, 0.05), 1.2, 0.0)
    console = Console(file=io.StringIO(), width=80)
    show_answer(console, Answer("1200", latents=(latent,) * 10, latent_count=10, forwards=13))
    lines = console.file.getvalue().splitlines()
    assert len(lines) == 11 and "1200 0.60  400 0.10  + 0.10  = 0.10  entropy 1.20" in lines[0]
