"""A five-minute tour of the embedded model on a CPU: thoughts, a comparison, an ablation, then live training.

Writes `summary.json`, run.json and samples.jsonl.gz of every method, the run of the live training, and a page with
figures, all in one folder.
"""

from __future__ import annotations

import shutil
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ruplar.errors import Interrupted, UserError
from ruplar.io import writable_folder, write_json

if TYPE_CHECKING:
    from rich.console import Console

    from ruplar.evaluate.record import BenchmarkResult
    from ruplar.train.progress import Progress, Show

METHODS = {"cot": "text chain", "no_cot": "none", "ruplar": "soft tokens"}
OLD = "word-problems"
LIVE_RECIPE, LIVE_FAMILY = "embedded-live", "word-problems:potion_shop"
PAGE = "page.html"
_SHOWN_STEPS = (2, 3, 4)
"""Lengths of the chains whose thoughts are shown."""


_NEW_WORDS = (
    "dozen,score,fortnight,trio,trios,quartet,quartets,pair,pairs,charms,potions,elixirs,vials,potion,wizard,brews,"
    "knight,witch,fairy,dragon,melts,An,elf,goblin,steals"
)
"""Words of the new family that no old problem has."""


@dataclass(frozen=True)
class DemoSize:
    """How long the demo takes."""

    questions: int = 100  # held-out problems per evaluation
    ablated: int = 40  # how many of them the latent ablation answers, once per mode
    overrides: tuple[str, ...] = (  # settings that override the live recipe
        f"backbone.lora.words=[{_NEW_WORDS}]",
        "training.max_steps=300",
        "training.per_device_train_batch_size=16",
        "training.learning_rate=1e-3",
        "training.warmup_steps=10",
        "data.train.0.count=1600",
        "data.train.1.count=3200",
    )
    # share of the trained change that is kept. A short training disturbs the old problems; interpolating between its start and
    # its end repairs them (WiSE-FT, Wortsman et al. 2022)
    kept: float = 0.75


FULL = DemoSize(400, 400, (), kept=1.0)


@dataclass
class _Demo:
    """What all parts share."""

    folder: Path
    size: DemoSize
    device: str
    console: Console
    summary: dict[str, Any] = field(default_factory=dict)

    def say(self, text: str = "", style: str | None = None) -> None:
        """Print one paragraph."""
        self.console.print(text, style=style, highlight=False, markup=False)


def run_demo(folder: Path, size: DemoSize, device: str, console: Console, *, train: bool = True) -> dict[str, Any]:
    """Run the demo and write `folder/summary.json`.

    Args:
        folder: Output folder; the folder of an earlier demo is replaced.
        size: How long it takes.
        device: Device of the models.
        console: Where tables and progress bars are printed.
        train: Whether to train live after the first part.

    Returns:
        The summary; accuracies in percent.
    """
    _clear(folder)
    started = time.monotonic()
    demo = _Demo(folder, size, device, console)
    try:
        _show_thoughts(demo)
        _compare(demo)
        _ablate(demo)
        demo.say(f"First part done in {time.monotonic() - started:.0f} s.", "dim")
        if train:
            _train_live(demo)
    except (KeyboardInterrupt, Interrupted):
        demo.say("\nInterrupted; the results of the finished parts are in the output folder.", "yellow")
    _write_page(demo)
    demo.summary["seconds"] = round(time.monotonic() - started, 1)
    write_json(folder / "summary.json", demo.summary)
    _close(demo)
    return demo.summary


def _clear(folder: Path) -> None:
    if folder.exists():
        if not folder.is_dir() or (any(folder.iterdir()) and not (folder / ".demo").is_file()):
            raise UserError(f"{folder}: exists and is not an earlier demo's folder. Choose another with --output.")
        shutil.rmtree(folder)
    writable_folder(folder).mkdir(parents=True)
    (folder / ".demo").touch()


def _show_thoughts(demo: _Demo) -> None:
    from ruplar.data.sources import SourceConfig, open_source
    from ruplar.display import show_answer
    from ruplar.reasoner import LatentReasoner

    demo.say("\n1  Thoughts: one soft token per step instead of a written chain", "bold")
    reasoner = LatentReasoner.from_pretrained("embedded:ruplar", demo.device)
    examples = open_source(SourceConfig(source=OLD, count=20), reasoner.model.domain).examples
    chosen = [next(e for e in examples if len(e.steps) == steps) for steps in _SHOWN_STEPS]
    answers = reasoner.ask([example.question for example in chosen], return_latents=True)
    for example, answer in zip(chosen, answers, strict=True):
        demo.say(f"\n{example.question}")
        show_answer(demo.console, answer, chain=" ".join(f"<<{step}>>" for step in example.steps))


def _compare(demo: _Demo) -> None:
    from ruplar.display import percent, table

    demo.say(f"\n2  Comparison: three methods on the same {demo.size.questions} held-out word problems", "bold")
    found = {method: _evaluate(demo, f"embedded:{method}", OLD, method) for method in METHODS}
    rows = [
        (m, METHODS[m], percent(r.accuracy, r.low, r.high), f"{r.latents:.2f}", f"{r.forwards:.2f}", f"{r.ms_per_question:.0f}")
        for m, r in found.items()
    ]  # fmt: skip
    demo.console.print(table("", ("method", "thinks in", "accuracy (95 % CI)", "#L", "forwards", "ms/question"), rows))
    demo.say("#L: soft tokens, or tokens of the text chain. Forwards: forward passes. Times at batch size 100.", "dim")
    keys = ("accuracy", "low", "high", "latents", "forwards", "ms_per_question", "n")
    demo.summary["methods"] = {method: {key: getattr(r, key) for key in keys} for method, r in found.items()}


def _ablate(demo: _Demo) -> None:
    from ruplar.data.sources import SourceConfig
    from ruplar.display import ablation_table
    from ruplar.evaluate.record import ABLATION
    from ruplar.runs import ablate_model

    same = "the same" if demo.size.ablated == demo.size.questions else "the first"
    demo.say(f"\n3  Latent ablation: {same} {demo.size.ablated} problems with the soft tokens replaced", "bold")
    on = [SourceConfig(source=OLD, count=demo.size.ablated)]
    rows = ablate_model("embedded:ruplar", on, console=demo.console, device=demo.device, batch_size=20)[OLD]
    demo.console.print(ablation_table("", rows))
    demo.summary["ablation"] = {row.mode: row.result.accuracy for row in rows}
    write_json(demo.folder / "ruplar" / ABLATION, {OLD: [row.as_dict() for row in rows]})


def _train_live(demo: _Demo) -> None:
    from ruplar.config import load_recipe
    from ruplar.display import percent, table
    from ruplar.evaluate.record import read_record, write_record
    from ruplar.runs import train_and_record, weights_of

    demo.say("\n4  Live training: the model learns a family of problems it has never seen", "bold")
    demo.say("Ctrl-C ends the training early and evaluates the model so far.", "dim")
    new_before = _evaluate(demo, "embedded:ruplar", LIVE_FAMILY, "live-before")
    config = load_recipe(LIVE_RECIPE, demo.size.overrides)
    run = demo.folder / "live"
    with _stoppable(demo) as progress:
        train_and_record(
            config, run, demo.size.overrides, resume=False, device=demo.device, console=demo.console, progress=progress
        )
    if demo.size.kept < 1:
        _interpolate(run / "model", demo.size.kept)
        write_record(read_record(run).model_copy(update={"weights": weights_of(run / "model")}), run)
        demo.say(f"The adapter keeps {demo.size.kept:.0%} of its change, which protects the old problems.", "dim")
    new_after, old_after = (_evaluate(demo, str(run), source, run.name) for source in (LIVE_FAMILY, OLD))
    old_before = demo.summary["methods"]["ruplar"]
    rows = [
        ("dozens, scores, fortnights (new)", percent(new_before.accuracy, new_before.low, new_before.high), percent(new_after.accuracy, new_after.low, new_after.high)),
        ("the old problems", percent(old_before["accuracy"], old_before["low"], old_before["high"]), percent(old_after.accuracy, old_after.low, old_after.high)),
    ]  # fmt: skip
    columns = (f"{demo.size.questions} held-out problems", "before (95 % CI)", "after (95 % CI)")
    demo.console.print(table("", columns, rows))
    demo.summary["live"] = {
        "before": new_before.accuracy,
        "after": new_after.accuracy,
        "old_problems_before": old_before["accuracy"],
        "old_problems_after": old_after.accuracy,
    }


@contextmanager
def _stoppable(demo: _Demo) -> Iterator[Show]:
    """Show a progress bar; the first Ctrl-C stops the training, the second interrupts the demo."""
    from ruplar.train.progress import BarProgress

    stopped = threading.Event()
    previous = signal.getsignal(signal.SIGINT)

    def stop(*_: Any) -> None:
        stopped.set()
        signal.signal(signal.SIGINT, previous)

    signal.signal(signal.SIGINT, stop)
    try:
        with BarProgress(demo.console) as bar:

            def update(progress: Progress) -> bool:
                bar(progress)
                return stopped.is_set()

            yield update
    finally:
        signal.signal(signal.SIGINT, previous)
    if stopped.is_set():
        demo.say("Stopped early: the model so far is evaluated.", "yellow")


def _interpolate(model: Path, kept: float) -> None:
    """Move a model toward the start of its training: multiply its adapter's B matrices; embedding rows stay."""
    from safetensors.torch import load_file, save_file

    file = model / "adapter_model.safetensors"
    weights = load_file(file)
    scaled = {name: weight * kept if ".lora_B." in name else weight for name, weight in weights.items()}
    save_file(scaled, file, metadata={"format": "pt"})


def _evaluate(demo: _Demo, model: str, source: str, name: str) -> BenchmarkResult:
    """Evaluate a model on held-out problems; the result is added to the record in the demo's folder `name`."""
    from ruplar.data.sources import SourceConfig
    from ruplar.engine.sampling import Decoding
    from ruplar.runs import evaluate_and_record

    on = [SourceConfig.model_validate({"source": source, "count": demo.size.questions})]
    *_, [result] = evaluate_and_record(
        model, on, Decoding(), [0],
        console=demo.console, device=demo.device, output=demo.folder / name, batch_size=100,
    )  # fmt: skip
    return result


def _write_page(demo: _Demo) -> None:
    """Write the page; without matplotlib, an optional dependency, say that it is left out."""
    from ruplar.report.figures.style import load
    from ruplar.report.page import write_page

    if "methods" not in demo.summary:
        return
    try:
        load()
    except UserError as error:
        demo.say(f"\nNo page was written: {error}", "yellow")
        return
    write_page(demo.folder, demo.folder / PAGE, drafts=True, made_by="ruplar demo")


def _close(demo: _Demo) -> None:
    """Print what is in the folder."""
    demo.say(f"\nDone in {demo.summary['seconds'] / 60:.1f} minutes. Written to {demo.folder}:", "bold")
    for name, what in (
        (PAGE, "tables, figures and thoughts on one page"),
        ("summary.json", "the numbers above"),
        ("ruplar", "run.json and samples of every method: cot, no_cot, ruplar"),
        ("live/model", f"the model just trained; try: ruplar ask {demo.folder / 'live'}"),
    ):
        if (demo.folder / name).exists():
            demo.say(f"  {name:13} {what}")
