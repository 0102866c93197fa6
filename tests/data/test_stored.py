"""Sets larger than memory: beyond a number of rows, examples are in a file."""

import json
import pickle
import tracemalloc
from collections.abc import Iterator

import pytest

from ruplar import plugins
from ruplar.data import stored
from ruplar.data.sources import SourceConfig, open_source
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


def test_training_reads_the_same_rows_from_a_file(arithmetic, monkeypatch, tmp_path):
    from ruplar.config import DataSettings
    from ruplar.train.dataset import load_data

    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in chains(40)))
    section = DataSettings(
        train=[{"source": str(tmp_path / "rows.jsonl")}], domain="arithmetic", canonical_operands=True
    )
    before = load_data(section, arithmetic)
    monkeypatch.setattr(stored, "KEPT", 10)
    after = load_data(section, arithmetic)
    assert list(after.train) == list(before.train) and after.fingerprints == before.fingerprints


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
