"""Training on millions of chains in Parquet shards: the run's memory against the number of rows.

    python benchmarks/stream_data.py --rows 500000,1500000,5000000 --output results/bench/stream-data.json
    python benchmarks/stream_data.py --rows 5000000 --through datasets      # datasets.load_dataset(…, streaming=True)
    python benchmarks/stream_data.py --output results/bench/stream-data.json --figure docs/figures/stream-data.png

Each count is a run of its own, with the embedded model, from reading the shards to the last of 5 steps. Memory is the
highest `RssAnon` of the process: what it holds itself. `RssFile`, pages of files that the system can drop, is apart.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import re
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SHARD = 250_000
STEPS = 5
KINDS = {"RssAnon": "anonymous_mb", "RssFile": "files_mb"}


def chains(start: int, count: int) -> Iterator[dict[str, str]]:
    """Different two-step problems, about as long as those of GSM8K-Aug."""
    for number in range(start, start + count):
        draw = random.Random(number)
        boxes, each, sold = draw.randint(2, 99), draw.randint(100, 999), draw.randint(1, 199)
        made = boxes * each
        yield {
            "question": f"On day {number} a bakery fills {boxes} boxes with {each} rolls each and sells {sold} of the "
            "rolls before noon. How many rolls are left?",
            "steps": f"<<{boxes}*{each}={made}>> <<{made}-{sold}={made - sold}>>",
            "answer": str(made - sold),
        }


def write_shards(folder: Path, rows: int) -> list[Path]:
    """Write the shards that are missing; return those of `rows` rows."""
    import pyarrow as pa
    from pyarrow import parquet

    files = [folder / f"{start:08d}.parquet" for start in range(0, rows, SHARD)]
    for start, file in zip(range(0, rows, SHARD), files, strict=True):
        if not file.exists():
            table = pa.Table.from_pylist(list(chains(start, min(SHARD, rows - start))))
            parquet.write_table(table, file.with_suffix(".draft"), row_group_size=10_000)
            file.with_suffix(".draft").rename(file)
    return files


def run(files: list[Path], through: str, output: Path) -> None:
    """Train on the shards; in a process of its own."""
    import torch

    torch.set_num_threads(1)
    if through == "files":
        from ruplar.config import load_recipe
        from ruplar.train.run import train

        sources = json.dumps([{"source": str(file)} for file in files])
        train(
            load_recipe(
                "embedded-live",
                [f"data.train={sources}", f"training.max_steps={STEPS}", "training.per_device_train_batch_size=4"],
            ),
            output=output,
        )
    else:
        from datasets import load_dataset

        from ruplar import LatentTrainer, TrainConfig

        rows = load_dataset("parquet", data_files=[str(file) for file in files], split="train", streaming=True)
        LatentTrainer(
            "embedded",
            train_dataset=rows,
            args=TrainConfig(output_dir=output, max_steps=STEPS, per_device_train_batch_size=4),
        ).train()


def peak_memory(files: list[Path], through: str, output: Path) -> dict[str, float]:
    """Return the highest memory of the run in MB, by kind."""
    process = multiprocessing.get_context("spawn").Process(target=run, args=(files, through, output))
    process.start()
    most = dict.fromkeys(KINDS, 0.0)
    while process.is_alive():
        found = re.findall(r"(RssAnon|RssFile):\s+(\d+) kB", Path(f"/proc/{process.pid}/status").read_text())
        for kind, size in found:  # none once the process has ended
            most[kind] = max(most[kind], round(int(size) * 1024 / 1e6, 1))
        process.join(0.1)
    if process.exitcode:
        raise SystemExit(f"the run ended with status {process.exitcode}")
    return most


def measure(options: argparse.Namespace, record: list[dict[str, Any]]) -> None:
    print("| rows | shards | memory | pages of files | time |\n|---:|---:|---:|---:|---:|", flush=True)
    with tempfile.TemporaryDirectory(prefix="stream-") as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for rows in map(int, options.rows.split(",")):
            files = write_shards(folder, rows)
            began = time.monotonic()
            most = peak_memory(files, options.through, Path(temporary) / f"run-{rows}")
            seconds = round(time.monotonic() - began)
            sizes = " | ".join(f"{most[kind]:,.0f} MB" for kind in KINDS)
            print(f"| {rows:,} | {len(files)} | {sizes} | {seconds:,} s |", flush=True)
            about = {"rows": rows, "shards": len(files), "through": options.through, "seconds": seconds}
            record[:] = [one for one in record if (one["rows"], one["through"]) != (rows, options.through)]
            record.append({**about, **{KINDS[kind]: size for kind, size in most.items()}})
            if options.output:
                options.output.write_text(json.dumps(sorted(record, key=lambda one: one["rows"]), indent=1) + "\n")


def draw(record: list[dict[str, Any]], picture: Path) -> None:
    from ruplar.report.figures.style import BLUE, GREEN, MUTED, Drawing, panels, styled

    @styled
    def drawing() -> Drawing:
        image, (axis,) = panels(1, 1, 8, 4.6)
        runs = [one for one in record if one["through"] == "files"]
        rows = [one["rows"] / 1e6 for one in runs]
        for kind, label, colour, mark in (
            ("anonymous_mb", "memory of the process", BLUE, "o"),
            ("files_mb", "pages of files, which the system can drop", GREEN, "s"),
        ):
            axis.plot(rows, [one[kind] for one in runs], color=colour, marker=mark, label=label)
        axis.plot(rows, [800 * n for n in rows], "--", color=MUTED, label="the rows alone, if all were in memory")
        axis.set(xlabel="million training rows", ylabel="highest memory in MB", ylim=(0, None))
        axis.legend()
        return Drawing("Memory against rows", "", image)

    picture.write_bytes(drawing().png())


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--rows", default="500000,1500000,5000000", help="comma-separated numbers of rows")
    words.add_argument("--through", choices=("files", "datasets"), default="files", help="how the shards are read")
    words.add_argument("--folder", type=Path, help="keep the shards here, to use them again")
    words.add_argument("--output", type=Path, help="the record; counts that it has are replaced")
    words.add_argument("--figure", type=Path, help="draw the record instead of measuring")
    options = words.parse_args()
    record = json.loads(options.output.read_text()) if options.output and options.output.is_file() else []
    if options.figure:
        draw(record, options.figure)
    else:
        measure(options, record)


if __name__ == "__main__":
    main()
