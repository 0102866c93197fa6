from pathlib import Path

import pytest
from cases import cases
from report_toys import record, write_run

from ruplar.errors import UserError
from ruplar.evaluate.record import read_record, write_record
from ruplar.report.rows import FIELDS, Run, collect, find_runs, pool


def pooled(*records):
    return pool(Run(Path("runs/x"), r, r.benchmarks[0]) for r in records)


def test_one_seed_gives_its_own_figures_and_wilsons_interval():
    (row,) = pooled(record())
    # 460 of 1000: Wilson 42.93..49.10; 46.0 over 2 latents is 23.0
    assert (row.accuracy, row.low, row.high) == pytest.approx((46.0, 42.93, 49.10), abs=0.005)
    assert (row.method, row.backbone, row.benchmark, row.seeds) == ("ruplar", "Llama-3.2-1B", "svamp", (1,))


def test_seeds_are_pooled_and_their_scatter_widens_the_interval():
    (row,) = pooled(record(3, 480), record(1, 440), record(2, 460))
    # of the seeds 0.0004 / 3, of the questions 0.46 * 0.54 / 1000: together as 650.7 questions; t with 16 degrees of
    # freedom is 2.120, so Wilson's interval is 41.90..50.16
    assert (row.accuracy, row.low, row.high) == pytest.approx((46.0, 41.90, 50.16), abs=0.005)
    assert (row.seeds, row.ms_per_question, row.train_seconds) == ((1, 2, 3), 3.0, 120.0)
    assert [run.record.seed for run in row.runs] == [1, 2, 3]


def test_the_json_of_a_row_has_exactly_the_promised_fields():
    assert FIELDS == (
        "study", "method", "backbone", "benchmark", "seeds", "n", "accuracy", "low", "high", "latents", "forwards",
        "ms_per_question", "train_seconds", "peak_gb",
    )  # fmt: skip
    (row,) = pooled(record())
    assert tuple(row.as_dict()) == FIELDS and row.as_dict()["seeds"] == [1] and row.as_dict()["peak_gb"] is None


def test_methods_and_decodings_have_rows_of_their_own():
    table = pooled(record(), record(name="cot"), record(decoding="T=0.6, p=0.95"))
    assert [row.method for row in table] == ["ruplar", "cot", "ruplar (T=0.6, p=0.95)"]


def test_means_of_different_trainings_are_draws_as_seeds_are():
    [row] = pooled(record(1, correct=400, mean_of=[1, 2]), record(3, correct=420, mean_of=[3, 4]))
    assert row.seeds == (1, 3) and row.accuracy == pytest.approx(41.0)


@pytest.mark.parametrize(("records", "message"), cases(__file__, "not_pooled"))
def test_what_must_not_be_pooled_is_refused(records, message):
    with pytest.raises(UserError, match=message):
        pooled(*(record(**fields) for fields in records))


def test_partial_runs_below_a_folder_are_left_out_and_named_ones_refused(tmp_path):
    write_record(record(1), tmp_path / "a")
    partial = write_record(record(2, finished=False), tmp_path / "partial" / "b")
    assert [run.record.seed for run in find_runs([tmp_path])] == [1]
    assert [row.as_dict()["seeds"] for row in collect(tmp_path)] == [[1]]
    with pytest.raises(UserError, match="did not finish"):
        find_runs([partial])


def test_a_folder_of_partial_runs_alone_says_so_and_why(tmp_path):
    write_record(record(1, dirty=True), tmp_path / "a")
    write_record(record(2).model_copy(update={"benchmarks": []}), tmp_path / "b")
    with pytest.raises(UserError, match=r"(?s)these runs, so no table;.*uncommitted changes.*no benchmark result"):
        collect(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="no run found"):
        collect(tmp_path / "empty")
    with pytest.raises(UserError, match="no such file or folder"):
        collect(tmp_path / "nowhere")


def test_the_rows_of_a_study_come_in_its_own_order(tmp_path):
    for label in ("b", "a", "c"):
        write_run(tmp_path / "toy", label, 1, "10")
    (tmp_path / "toy" / "study.json").write_text('{"rows": {"c": {}, "a": {}, "b": {}}}')
    assert [row.method for row in collect(tmp_path)] == ["c", "a", "b"]


def test_runs_of_one_name_in_two_folders_are_two_rows_and_studies_are_never_pooled(tmp_path):
    for home in ("a", "b"):
        write_record(record(1), tmp_path / home / "run")
        write_record(record(1, study=f"study {home}"), tmp_path / f"study-{home}" / "run-seed1")
    assert [row.study for row in collect(tmp_path)] == ["", "", "study a", "study b"]
    assert {row.seeds for row in collect(tmp_path)} == {(1,)}


@pytest.mark.slow
def test_every_committed_record_is_read_and_its_row_names_its_study():
    results = Path(__file__).parents[2] / "results"
    rows = collect(results)
    read = {run.folder for row in rows for run in row.runs}
    unread = [file.parent for file in results.rglob("run.json") if file.parent not in read]
    assert all(read_record(folder).benchmarks == [] for folder in unread)
    assert all(row.study == row.runs[0].folder.parent.name for row in rows)
