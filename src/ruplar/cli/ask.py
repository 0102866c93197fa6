"""`ruplar ask`: a question → the latents as readable tokens and the answer, or sampled answers and their majority vote."""

import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

import typer
from rich.console import Console

from ruplar.cli import options
from ruplar.errors import UserError

out, err = Console(), Console(stderr=True)

_END_WORDS = ("", "exit", "quit")


def ask(
    model: options.ModelArg,
    question: Annotated[
        str | None,
        typer.Argument(help="The question; '-' reads one per line from stdin. Default: an interactive prompt."),
    ] = None,
    samples: options.Samples = 1,
    noise: options.NoiseScale = None,
    temperature: options.Temperature = 0.0,
    top_p: options.TopP = 1.0,
    seed: options.Seed = 0,
    settings: options.MethodSettings = None,
    device: options.Device = "auto",
    dtype: options.Dtype = "auto",
    as_json: options.AsJson = False,
) -> None:
    """Answer questions and show the latents as tokens.

    With several samples, shows the votes for each answer and the majority.
    """
    from ruplar.engine.sampling import Decoding
    from ruplar.reasoner import LatentReasoner, check_samples

    if question is not None and not question.strip():
        raise UserError("the question is empty.")
    noise = options.default_noise(samples, noise, temperature)
    decoding = Decoding(temperature, top_p, seed, noise=noise)
    check_samples(samples, decoding)
    start = time.perf_counter()
    reasoner = LatentReasoner.from_pretrained(
        model, options.pick_device(device), dtype, settings=options.method_settings(settings)
    )
    reasoner.warm_up(return_latents=True, decoding=decoding, batch_size=samples, samples=samples)
    write = partial(options.print_json, line=question in (None, "-")) if as_json else None
    if not write:
        out.print(f"  loaded in {time.perf_counter() - start:.1f} s", style="dim", highlight=False)
    reply = _replier(reasoner, decoding, samples, write)
    if question == "-":
        lines = ((f"line {number}: ", line.strip()) for number, line in enumerate(sys.stdin or (), 1))
        if not all([_answered(reply, text, place) for place, text in lines if text]):
            raise typer.Exit(2)
    elif question is not None:
        reply(question)
    else:
        _prompt_loop(reply, err if as_json else out)


def _replier(reasoner: Any, decoding: Any, samples: int, write: Callable[[Any], None] | None) -> Callable[[str], None]:
    """Return a function that answers a question and prints the answer or vote; `write` prints JSON instead."""
    from ruplar.display import answer_as_dict, show_answer, show_votes, vote_as_dict
    from ruplar.evaluate.score import majority

    def reply(text: str) -> None:
        start = time.perf_counter()
        [answers] = reasoner.sample([text], samples, return_latents=True, decoding=decoding, batch_size=samples)
        vote = majority(answers, reasoner.model.domain) if samples > 1 else None
        if write:
            shown = [answer_as_dict(text, answer) for answer in answers]
            write(vote_as_dict(text, vote) | {"samples": shown} if vote else shown[0])
            return
        if vote:
            show_votes(out, vote, answers)
        else:
            show_answer(out, answers[0])
        out.print(f"  {1000 * (time.perf_counter() - start):.0f} ms", style="dim", highlight=False)

    return reply


def _answered(reply: Callable[[str], None], text: str, place: str = "") -> bool:
    """Reply to one of several questions; what is wrong with it is printed, and the next one can be asked."""
    try:
        reply(text)
    except UserError as error:
        options.print_text(err, f"ruplar: {place}{error}")
        return False
    return True


def _prompt_loop(reply: Callable[[str], None], console: Console) -> None:
    console.print("Type a word problem. To end: exit, quit, Ctrl-D or an empty line.", style="dim", highlight=False)
    while True:
        try:
            text = console.input("[bold]> [/bold]").strip()
        except (EOFError, RuntimeError):  # RuntimeError: standard input is closed
            console.print()  # ends the prompt's line
            return
        if text.lower() in _END_WORDS:
            return
        _answered(reply, text)
