"""Sets larger than memory: beyond a number of rows, examples are in a file."""

import json
import pickle
import re
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from ruplar import plugins
from ruplar.data import stored
from ruplar.data.sources import SourceConfig, open_source
from ruplar.fingerprints import count_seen, digests, short_digest
from ruplar.mapped import mapped, repeated, sorted_once
from ruplar.train.dataset import examples_of


def chains(count: int, padding: str = "") -> Iterator[dict]:
    for n in range(count):
        yield {"question": f"{n} bags of 4? {padding}", "steps": [f"{n}*4={4 * n}"], "answer": str(4 * n)}


@pytest.fixture
def arithmetic():
    return plugins.make("domains", "arithmetic")


@pytest.mark.parametrize("kept", [0, 7, 20])
def test_examples_in_a_file_equal_those_in_memory(arithmetic, monkeypatch, kept):
    in_memory = examples_of(chains(20), "rows", arithmetic, need_steps=True)
    monkeypatch.setattr(stored, "KEPT", kept)
    found = examples_of(chains(20), "rows", arithmetic, need_steps=True)
    assert isinstance(in_memory, list) and isinstance(found, list) == (kept == 20)
    assert list(found) == in_memory and found[-1] == in_memory[-1] and found[3:5] == in_memory[3:5]
    assert list(pickle.loads(pickle.dumps(found))) == in_memory  # as a data-loader worker gets it


@pytest.mark.slow
def test_a_parquet_file_of_any_length_is_read_without_holding_its_rows(arithmetic, monkeypatch, tmp_path):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    monkeypatch.setattr(stored, "KEPT", 100)

    def peak(count: int) -> int:
        file = tmp_path / f"{count}.parquet"
        parquet.write_table(pa.Table.from_pylist(list(chains(count, "x" * 4000))), file, row_group_size=500)
        tracemalloc.start()
        loaded = open_source(SourceConfig(source=str(file)), arithmetic, split="train")
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert len(loaded.examples) == count and loaded.examples[count - 1].answer == str(4 * count - 4)
        return most

    small, large = peak(3000), peak(6000)
    # 3,000 more rows of 4,000 characters: 12 MB if they were held, about 100 bytes each if not
    assert large - small < 3_000_000


def test_many_small_files_of_a_run_share_the_rows_that_stay_in_memory(arithmetic, monkeypatch, tmp_path):
    from ruplar.config import DataSettings
    from ruplar.train.dataset import from_files, load_data

    lines = [json.dumps(row) + "\n" for row in chains(30)]
    shards = [tmp_path / f"{n}.jsonl" for n in range(5)]
    for n, shard in enumerate(shards):
        shard.write_text("".join(lines[6 * n : 6 * n + 6]))
    (tmp_path / "valid.jsonl").write_text(lines[13])  # one question of the third shard, which is left out of training
    section = DataSettings(
        train=[{"source": str(shard)} for shard in shards], valid=str(tmp_path / "valid.jsonl"), domain="arithmetic"
    )
    before = load_data(section, arithmetic)
    monkeypatch.setattr(stored, "KEPT", 13)
    after = load_data(section, arithmetic)
    assert [isinstance(one, list) for one in after.train.examples.sources] == [True, True, False, False, False]
    assert list(after.train) == list(before.train) and len(after.train) == 29
    assert list(from_files(after.train)) == list(enumerate(before.train))


def test_numbers_in_a_file_are_sorted_and_repeats_are_found_across_blocks(monkeypatch):
    monkeypatch.setattr("ruplar.mapped._BLOCK", 3)
    drawn = np.random.default_rng(0).integers(0, 12, 40).tolist()
    assert mapped(drawn).tolist() == drawn and mapped([]).tolist() == []
    assert sorted_once(mapped(drawn)).tolist() == sorted(set(drawn))
    assert repeated(mapped(drawn)) == [i for i, n in enumerate(drawn) if n in drawn[:i]]
    assert repeated(mapped(range(9))) == repeated(mapped([])) == []


def test_digests_are_joined_with_those_of_an_earlier_model():
    earlier = digests(["How many?", "How far?"])
    found = digests(["how  MANY?", "Else?"], earlier)
    assert found.tolist() == sorted(map(short_digest, ["How many?", "How far?", "Else?"]))
    assert count_seen(["Else?", "New?", "How far?", "how far?"], found) == 3 and count_seen([], found) == 0


@pytest.mark.slow
def test_the_order_of_the_rows_takes_no_memory_per_row():
    import torch

    from ruplar.train.sampler import EpochPlan, Order, shuffled

    def start(rows):
        order = iter(Order(shuffled(rows), EpochPlan(rows, 4), seed=1))
        return next(order).row, order

    start(100_000)  # the first use of torch and the block of rows that is converted at a time
    before = _anonymous()
    first, order = start(2_000_000)
    assert _anonymous() - before < 6_000_000, "16 MB as an array in memory"
    assert first == torch.randperm(2_000_000, generator=torch.Generator().manual_seed(1))[0] and order


def _anonymous() -> int:
    """Return the bytes that this process holds, without pages of files."""
    found = re.search(r"RssAnon:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return 1024 * int(found[1])
