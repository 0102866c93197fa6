import csv
import io
import json

import pytest

from ruplar.errors import UserError
from ruplar.evaluate.record import BenchmarkResult, Machine, RunRecord, write_record
from ruplar.report.tables import collect, collect_rows, replace_block, rows, to_csv, to_json, to_markdown


def run(seed=1, correct=460, name="ruplar", n=1000, prior="mixture", **changes):
    result = {key: changes.pop(key) for key in ("limit", "decoding", "latents") if key in changes}
    result = {"latents": 2.0, **result}
    benchmark = BenchmarkResult(
        name="svamp", n=n, correct=correct, answer_tokens=4, forwards=7, ms_per_question=1.5 * seed, **result
    )
    config = {"seed": seed, "backbone": {"name": "meta-llama/Llama-3.2-1B"}, "prior": {"name": prior}}
    about = {"commit": "abc", "dirty": False, "versions": {}, "machine": Machine(cpu="x", cores=2, memory_gb=8)}
    about |= {"started": "2026-01-01T00:00:00+00:00", "train_seconds": 60.0 * seed, **changes}
    return RunRecord(name=name, seed=seed, config=config, benchmarks=[benchmark], **about)


def test_one_seed_gives_its_own_figures_and_wilsons_interval():
    (row,) = rows([run()])
    # 460 of 1000: Wilson 42.93..49.10; 46.0 over 2 latents is 23.0
    assert (row.accuracy, row.low, row.high) == pytest.approx((46.0, 42.93, 49.10), abs=0.005)
    assert (row.method, row.backbone, row.benchmark, row.seeds) == ("ruplar", "Llama-3.2-1B", "svamp", (1,))
    assert row.acc_per_latent == pytest.approx(23.0)


def test_seeds_are_pooled_and_the_wider_interval_is_shown():
    (row,) = rows([run(1, 440), run(2, 460), run(3, 480)])
    # mean 46, s 2: t interval 41.03..50.97, wider than Wilson's 42.93..49.10
    assert (row.accuracy, row.low, row.high) == pytest.approx((46.0, 41.03, 50.97), abs=0.005)
    assert (row.seeds, row.ms_per_question, row.train_seconds) == ((1, 2, 3), 3.0, 120.0)
    # three equal seeds do not make the questions more
    (row,) = rows([run(1), run(2), run(3)])
    assert (row.low, row.high) == pytest.approx((42.93, 49.10), abs=0.005)


def test_methods_and_decodings_have_rows_of_their_own():
    table = rows([run(), run(name="cot"), run(decoding="T=0.6, p=0.95")])
    assert [row.method for row in table] == ["ruplar", "cot", "ruplar (T=0.6, p=0.95)"]


@pytest.mark.parametrize(
    ("records", "message"),
    [
        ([run(1), run(2, prior="gumbel")], "differ in prior.name"),
        ([run(1), run(1)], "two runs have seed 1"),
        ([run(1), run(2, n=900)], "asked 1,000 questions and another 900"),
        ([run(limit=10)], "cannot enter a table"),
        ([run(dirty=True)], "uncommitted changes"),
    ],
)
def test_what_must_not_be_pooled_is_refused(records, message):
    with pytest.raises(UserError, match=message):
        rows(records)


def test_partial_runs_below_a_folder_are_left_out_and_named_ones_refused(tmp_path):
    write_record(run(1), tmp_path / "a")
    partial = write_record(run(2, finished=False), tmp_path / "partial" / "b")
    assert [record.seed for record in collect([tmp_path])] == [1]
    assert [row.as_dict()["seeds"] for row in collect_rows([tmp_path])] == [[1]]
    with pytest.raises(UserError, match="did not finish"):
        collect([partial])
    with pytest.raises(UserError, match="no finished run"):
        collect([tmp_path / "partial"])


def test_the_three_forms_hold_the_same_figures():
    table = rows([run(), run(name="no_cot", latents=0)])
    assert json.loads(to_json(table))[0]["accuracy"] == 46.0
    read = list(csv.DictReader(io.StringIO(to_csv(table))))
    assert (read[0]["accuracy"], read[0]["seeds"], read[1]["acc_per_latent"]) == ("46.0", "1", "")
    lines = to_markdown(table).splitlines()
    assert lines[0].startswith("| method | backbone | benchmark | n |")  # no study, no column
    assert "| 46.0 [42.9, 49.1] | 2.00 | 23.0 | 7.0 | 1.5 | 60 s | – |" in lines[2]
    assert "| 0.00 | – |" in lines[3]
    assert to_markdown(rows([run(study="main")])).startswith("| study |")


def test_only_the_marked_block_of_a_page_is_replaced():
    page = "# Title\n<!-- results:main -->\nold\n<!-- /results:main -->\ntext <!-- results:b --><!-- /results:b -->\n"
    found = replace_block(page, "main", "| a |\n")
    assert found == page.replace("old", "| a |")
    assert replace_block(found, "main", "| a |\n") == found


@pytest.mark.parametrize("page", ["nothing", "<!-- results:a -->", "<!-- /results:a --> <!-- results:a -->"])
def test_a_page_without_its_marks_is_refused(page):
    with pytest.raises(UserError, match="results:a"):
        replace_block(page, "a", "table")
