"""Nothing → the whole loop on the embedded model, on a laptop CPU: compare, ablate, train live, show thoughts, write a page.

Writes `summary.json`, one run.json and samples.jsonl.gz a method, the run of the live training, and a page with its figures,
all in one folder.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ruplar.errors import UserError

if TYPE_CHECKING:
    from rich.console import Console

    from ruplar.evaluate.ablate import AblationRow
    from ruplar.evaluate.record import BenchmarkResult

METHODS = ("cot", "no_cot", "ruplar")
OLD = "word-problems"
LIVE_RECIPE, LIVE_FAMILY = "embedded-live", "word-problems:potion_shop"
_ABOUT = {
    "cot": "writes its chain as text",
    "no_cot": "answers at once",
    "ruplar": "thinks in soft tokens",
}
_SHOWN = 3
PAGE = "page.html"


@dataclass
class _Demo:
    """What the parts share: where to write, how many questions, on what device, what the live recipe does otherwise."""

    folder: Path
    questions: int
    device: str
    console: Console
    overrides: Sequence[str] = ()
    summary: dict[str, Any] = field(default_factory=dict)

    def say(self, text: str = "", style: str | None = None) -> None:
        """One paragraph on the console."""
        self.console.print(text, style=style, highlight=False, markup=False)


def run_demo(
    folder: Path, questions: int, device: str, console: Console, overrides: Sequence[str] = ()
) -> dict[str, Any]:
    """Run the demo and write `folder/summary.json`.

    Args:
        folder: Everything goes here; the folder of an earlier demo is replaced.
        questions: Held-out problems asked of every method.
        device: Where the models run.
        console: Where tables and progress bars go.
        overrides: `key=value` settings laid on the live recipe, e.g. to shorten it.

    Returns:
        The summary; accuracies in percent.

    Raises:
        UserError: The folder holds something that is not a demo's.
    """
    _clear(folder)
    started = time.monotonic()
    demo = _Demo(folder, questions, device, console, overrides)
    _compare(demo)
    _ablate(demo)
    _show_thoughts(demo)
    _learn_live(demo)
    _write_page(demo)
    demo.summary["seconds"] = round(time.monotonic() - started, 1)
    (folder / "summary.json").write_text(json.dumps(demo.summary, indent=2) + "\n", encoding="utf-8")
    _close(demo)
    return demo.summary


def _clear(folder: Path) -> None:
    if folder.exists():
        if not folder.is_dir() or (any(folder.iterdir()) and not (folder / ".demo").is_file()):
            raise UserError(f"{folder}: exists and is not an earlier demo's folder. Choose another with --output.")
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    (folder / ".demo").touch()


def _compare(demo: _Demo) -> None:
    from ruplar.data.sources import SourceConfig
    from ruplar.display import percent, table
    from ruplar.engine.sampling import Decoding
    from ruplar.runs import evaluate_and_record

    demo.say(f"\n1  The same {demo.questions} held-out word problems, three ways to think", "bold")
    on = [SourceConfig(source=OLD, count=demo.questions)]
    found: dict[str, BenchmarkResult] = {}
    for method in METHODS:
        record, _ = evaluate_and_record(
            f"embedded:{method}", on, Decoding(), [0],
            console=demo.console, device=demo.device, output=demo.folder / method, batch_size=100,
        )  # fmt: skip
        found[method] = record.benchmarks[0]
    rows = (
        (
            m,
            _ABOUT[m],
            percent(r.accuracy, r.low, r.high),
            f"{r.latents:.2f}",
            f"{r.forwards:.2f}",
            f"{r.ms_per_question:.0f}",
        )
        for m, r in found.items()
    )
    columns = ("method", "how it thinks", "accuracy (95 %)", "#L", "forward passes", "ms a question")
    demo.console.print(table("", columns, rows))
    demo.say(
        "#L: soft tokens, or reasoning tokens of the text chain. Milliseconds are of this machine, 100 at a time."
    )
    demo.summary["methods"] = {
        m: {
            "accuracy": r.accuracy,
            "low": r.low,
            "high": r.high,
            "latents": r.latents,
            "forwards": r.forwards,
            "ms_per_question": r.ms_per_question,
            "n": r.n,
        }
        for m, r in found.items()
    }


def _ablate(demo: _Demo) -> None:
    from ruplar.data.sources import SourceConfig
    from ruplar.display import ablation_table
    from ruplar.runs import ablate_model

    demo.say("\n2  Do the soft tokens matter? The same problems with the thought taken away or replaced", "bold")
    on = [SourceConfig(source=OLD, count=demo.questions)]
    rows: list[AblationRow] = ablate_model(
        "embedded:ruplar", on, console=demo.console, device=demo.device, batch_size=100
    )[OLD]
    demo.console.print(ablation_table("", rows))
    demo.summary["ablation"] = {row.mode: row.result.accuracy for row in rows}
    told = {OLD: [row.as_dict() for row in rows]}
    (demo.folder / "ablation.json").write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")


def _show_thoughts(demo: _Demo) -> None:
    from ruplar.display import show_answer
    from ruplar.evaluate.record import read_samples
    from ruplar.reasoner import LatentReasoner

    demo.say(f"\n3  {_SHOWN} thoughts, each beside the text chain it replaces", "bold")
    chains = {row["question"]: row for row in read_samples(demo.folder / "cot")}
    solved = [row for row in read_samples(demo.folder / "ruplar") if row["correct"]]
    chosen = _different(solved, _SHOWN)
    reasoner = LatentReasoner.from_pretrained("embedded:ruplar", demo.device)
    answers = reasoner.ask([row["question"] for row in chosen], return_latents=True)
    for row, answer in zip(chosen, answers, strict=True):
        demo.say()
        demo.say(row["question"])
        show_answer(demo.console, answer, chain=chains[row["question"]]["thought"])


def _different(rows: Sequence[dict[str, Any]], count: int) -> list[dict[str, Any]]:
    """The first row of each thought's length, from two latents on: short thoughts and long ones."""
    by_length: dict[int, dict[str, Any]] = {}
    for row in rows:
        if row["latent_count"] > 1:
            by_length.setdefault(row["latent_count"], row)
    return [by_length[length] for length in sorted(by_length)][:count]


def _learn_live(demo: _Demo) -> None:
    from ruplar.config import load_recipe
    from ruplar.display import percent, table
    from ruplar.runs import train_and_record

    demo.say("\n4  Live training: a family of problems this model has never seen, learnt here and now", "bold")
    before = _accuracy(demo, "embedded:ruplar", LIVE_FAMILY, "live-before")
    config = load_recipe(LIVE_RECIPE, demo.overrides)
    run = demo.folder / "live"
    train_and_record(config, run, demo.overrides, resume=False, device=demo.device, console=demo.console)
    after = _accuracy(demo, str(run), LIVE_FAMILY, run.name)
    old_after = _accuracy(demo, str(run), OLD, run.name)
    old_before = demo.summary["methods"]["ruplar"]
    rows = [
        ("dozens, scores, fortnights (new)", percent(before.accuracy, before.low, before.high), percent(after.accuracy, after.low, after.high)),
        ("the old problems", percent(old_before["accuracy"], old_before["low"], old_before["high"]), percent(old_after.accuracy, old_after.low, old_after.high)),
    ]  # fmt: skip
    demo.console.print(table("", ("held-out problems", "before (95 %)", "after (95 %)"), rows))
    demo.summary["live"] = {
        "before": before.accuracy,
        "after": after.accuracy,
        "old_problems_before": old_before["accuracy"],
        "old_problems_after": old_after.accuracy,
    }


def _accuracy(demo: _Demo, model: str, source: str, name: str) -> BenchmarkResult:
    """The model on held-out problems of one source, added to the record in the demo's folder of that name."""
    from ruplar.data.sources import SourceConfig
    from ruplar.engine.sampling import Decoding
    from ruplar.runs import evaluate_and_record

    config = SourceConfig.model_validate({"source": source, "count": demo.questions})
    record, _ = evaluate_and_record(
        model, [config], Decoding(), [0],
        console=demo.console, device=demo.device, output=demo.folder / name, batch_size=100,
    )  # fmt: skip
    return record.benchmarks[-1]


def _write_page(demo: _Demo) -> None:
    """The page and its figures; matplotlib is an extra, and without it the demo says that it leaves them out."""
    from ruplar.report.figures.style import load
    from ruplar.report.page import write_report

    try:
        load()
    except UserError as error:
        demo.say(f"\nNo page and no figures were written: {error}", "yellow")
        return
    page = demo.folder / PAGE
    write_report([demo.folder], page, demo.folder / "figures", drafts=True, commands=["ruplar demo"])


def _close(demo: _Demo) -> None:
    demo.say(f"\nDone in {demo.summary['seconds'] / 60:.1f} minutes. Everything is in {demo.folder}:", "bold")
    for name, what in (
        *([(PAGE, "tables, figures and thoughts on one page: open it")] if (demo.folder / PAGE).is_file() else []),
        ("summary.json", "the figures above"),
        ("cot/ no_cot/ ruplar/", "run.json and every sample of each method"),
        ("live/model", "the model just trained:  ruplar ask " + str(demo.folder / "live")),
    ):
        demo.say(f"  {name:22} {what}")
