"""`ruplar ask`: a question → the thought in readable tokens and the answer, or many thoughts and what most of them say."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

import typer
from rich.console import Console

from ruplar.cli.options import (
    AsJson,
    Device,
    MethodSettings,
    ModelArg,
    NoiseScale,
    NoiseTemperature,
    Samples,
    Temperature,
    TopP,
    drawing,
    method_settings,
    pick_device,
    print_json,
)
from ruplar.errors import UserError

out = Console()

_ENDS = ("", "exit", "quit")
"""What is no question of the prompt loop, but its end."""


def ask(
    model: ModelArg,
    question: Annotated[
        str | None, typer.Argument(help="Left out: a prompt loop; '-': one question a line from stdin.")
    ] = None,
    samples: Samples = 1,
    noise: NoiseScale = None,
    noise_temperature: NoiseTemperature = 1.0,
    temperature: Temperature = 0.0,
    top_p: TopP = 1.0,
    seed: Annotated[int, typer.Option(min=0, help="Of a sampled answer, or a noisy thought.")] = 0,
    settings: MethodSettings = None,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """One question, or a prompt loop: the latents as readable tokens, then the answer; of several, the votes."""
    from ruplar.engine.sampling import Decoding
    from ruplar.reasoner import LatentReasoner, check_samples

    if question is not None and not question.strip():
        raise UserError("the question is empty.")
    decoding = Decoding(
        temperature, top_p, seed, noise=drawing(samples, noise, temperature), noise_temperature=noise_temperature
    )
    check_samples(samples, decoding)
    start = time.perf_counter()
    reasoner = LatentReasoner.from_pretrained(model, pick_device(device), settings=method_settings(settings or []))
    reasoner.warm_up(return_latents=True, decoding=decoding, batch_size=samples, samples=samples)
    told = partial(print_json, line=question == "-") if as_json else None
    if not told:
        out.print(f"  loaded in {time.perf_counter() - start:.1f} s", style="dim", highlight=False)
    reply = _one(reasoner, decoding, told) if samples == 1 else _several(reasoner, decoding, samples, told)
    if question == "-":
        for line in sys.stdin:
            if line.strip():
                reply(line.strip())
    elif question is not None:
        reply(question)
    else:
        _prompt_loop(reply)


Told = Callable[[Any], None]
"""What writes an answer for programs."""


def _one(reasoner: Any, decoding: Any, told: Told | None) -> Callable[[str], None]:
    from ruplar.display import answer_as_dict, show_answer

    def reply(text: str) -> None:
        start = time.perf_counter()
        [answer] = reasoner.ask([text], return_latents=True, decoding=decoding, batch_size=1)
        if told:
            told(answer_as_dict(text, answer))
        else:
            show_answer(out, answer)
            _time(start)

    return reply


def _several(reasoner: Any, decoding: Any, samples: int, told: Told | None) -> Callable[[str], None]:
    from ruplar.display import answer_as_dict, show_votes, vote_as_dict
    from ruplar.evaluate.score import majority

    def reply(text: str) -> None:
        start = time.perf_counter()
        [answers] = reasoner.sample([text], samples, return_latents=True, decoding=decoding, batch_size=samples)
        vote = majority(answers, reasoner.model.domain)
        if told:
            told(vote_as_dict(text, vote) | {"samples": [answer_as_dict(text, a) for a in answers]})
        else:
            show_votes(out, vote, answers)
            _time(start)

    return reply


def _time(start: float) -> None:
    out.print(f"  {1000 * (time.perf_counter() - start):.0f} ms", style="dim", highlight=False)


def _prompt_loop(reply: Callable[[str], None]) -> None:
    out.print("Ask a word problem; exit, quit, Ctrl-D or an empty line ends.", style="dim", highlight=False)
    while True:
        try:
            text = out.input("[bold]> [/bold]").strip()
        except EOFError:
            out.print()  # what comes next does not stand behind the prompt
            return
        if text.lower() in _ENDS:
            return
        reply(text)
