"""Try to break ruplar: mutated files, killed processes, full disks, NaN and a hostile network; write the table of figures.

    python benchmarks/harden --quick           # 4 minutes on two cores
    python benchmarks/harden --write           # over an hour; replaces the table in docs/reliability.md

Each attack runs in a process of its own. The exit status is 1 if one of them found a failure; all are printed.
"""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import random
import sys
import tempfile
import time
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import crashes
import files
import server
from tally import Tally

PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"
START, END = "<!-- figures of benchmarks/harden -->", "<!-- end of figures -->"
# attack → its function and its counts: quick, default
ATTACKS = {
    "data": (files.data_files, 600, 10_000),
    "recipes": (files.recipes, 100, 2_000),
    "overrides": (files.overrides, 100, 2_000),
    "models": (files.model_folders, 20, 500),
    "tokens": (files.control_tokens, 500, 20_000),
    "nan": (files.not_a_number, 3, 20),
    "kill-train": (crashes.kill_training, 2, 50),
    "kill-study": (crashes.kill_study, 2, 50),
    "kill-augment": (crashes.kill_augment, 3, 50),
    "kill-convert": (crashes.kill_convert, 3, 50),
    "kill-fetch": (crashes.kill_fetch, 5, 50),
    "disk": (crashes.disk, 1, 3),  # conditions
    "load": (server.load, 20, 500),  # clients
    "attack": (server.attack, 50, 1_000),
    "drain": (server.drain, 1, 5),
    "steady": (server.steady, 1, 30),  # minutes
}


def attempt(name: str, count: int, seed: int, pipe) -> None:
    """Run one attack and send its rows."""
    import torch

    torch.set_num_threads(1)
    logging.disable(logging.WARNING)  # reports of rows that were left out
    warnings.simplefilter("ignore")  # PEFT's notes on damaged configs
    with tempfile.TemporaryDirectory(prefix="harden-") as folder:
        began = time.monotonic()
        found = ATTACKS[name][0](count, random.Random(seed), Path(folder))
        for tally in found if isinstance(found, list) else [found]:
            tally.seconds = time.monotonic() - began
            pipe.send(tally)
    pipe.send(None)


def write(rows: list[Tally]) -> None:
    """Replace the rows of these attacks in the page."""
    head, _, rest = PAGE.read_text(encoding="utf-8").partition(START)
    table, _, tail = rest.partition(END)
    lines = {line.split("|")[1].strip(): line for line in table.strip().splitlines()[2:]}
    lines |= {row.attack: row.line() for row in rows}
    title = ["| attack | cases | what must hold | verdict | figures |", "|---|---:|---|---|---|"]
    PAGE.write_text("\n".join([head + START, *title, *lines.values(), END]) + tail, encoding="utf-8")


def main() -> int:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--quick", action="store_true", help="small counts, about 4 minutes")
    words.add_argument("--only", help=f"comma-separated attacks: {', '.join(ATTACKS)}")
    words.add_argument("--count", type=int, help="cases per attack, instead of its own count")
    words.add_argument("--seed", type=int, default=1)
    words.add_argument("--write", action="store_true", help=f"replace the table in {PAGE.name}")
    options = words.parse_args()
    rows, began = [], time.monotonic()
    context = multiprocessing.get_context("fork")
    for name in options.only.split(",") if options.only else ATTACKS:
        count = options.count or ATTACKS[name][1 if options.quick else 2]
        first = len(rows)
        here, there = context.Pipe(duplex=False)
        process = context.Process(target=attempt, args=(name, count, options.seed, there))
        process.start()
        there.close()
        try:
            while (tally := here.recv()) is not None:
                rows.append(tally)
        except EOFError:
            rows.append(Tally(name, "the attack itself must run", failures=["it ended early"]))
        process.join()
        for tally in rows[first:]:
            print(f"{tally.line()}  {tally.seconds:.0f} s", flush=True)
            for failure in tally.failures[:5]:
                print(f"  {failure}", flush=True)
    print(f"{time.monotonic() - began:.0f} s, seed {options.seed}")
    if options.write:
        write(rows)
    return int(any(row.failures for row in rows))


if __name__ == "__main__":
    raise SystemExit(main())
