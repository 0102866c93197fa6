"""Training on millions of chains in Parquet shards: the run's memory against the number of rows.

    python benchmarks/stream_data.py --rows 500000,1000000,2000000,5000000
    python benchmarks/stream_data.py --rows 5000000 --through datasets      # datasets.load_dataset(…, streaming=True)

Each count is a run of its own, with the embedded model, from reading the shards to the last of 5 steps. Memory is the
highest `RssAnon` of the process: what it holds itself, without pages of files, which the system can drop.
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

SHARD = 250_000
STEPS = 5


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


def peak_memory(files: list[Path], through: str, output: Path) -> int:
    """Return the highest number of bytes that the run held."""
    process = multiprocessing.get_context("spawn").Process(target=run, args=(files, through, output))
    process.start()
    most = 0
    while process.is_alive():
        status = Path(f"/proc/{process.pid}/status").read_text()
        found = re.search(r"RssAnon:\s+(\d+) kB", status)  # absent once the process has ended
        most = max(most, 1024 * int(found[1]) if found else 0)
        process.join(0.2)
    if process.exitcode:
        raise SystemExit(f"the run ended with status {process.exitcode}")
    return most


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--rows", default="500000,1000000,2000000,5000000", help="comma-separated numbers of rows")
    words.add_argument("--through", choices=("files", "datasets"), default="files", help="how the shards are read")
    words.add_argument("--folder", type=Path, help="keep the shards here, to use them again")
    options = words.parse_args()
    print("| rows | shards | memory | time |\n|---:|---:|---:|---:|", flush=True)
    with tempfile.TemporaryDirectory(prefix="stream-") as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for rows in map(int, options.rows.split(",")):
            files = write_shards(folder, rows)
            began = time.monotonic()
            most = peak_memory(files, options.through, Path(temporary) / f"run-{rows}")
            seconds = time.monotonic() - began
            print(f"| {rows:,} | {len(files)} | {most / 1e6:,.0f} MB | {seconds:,.0f} s |", flush=True)


if __name__ == "__main__":
    main()
