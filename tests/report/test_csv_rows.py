"""Rows → CSV whose further columns are the paired tests and the paper's printed numbers."""

from __future__ import annotations

import csv
import io
import json

import pytest
from report_toys import record, write_run, write_study
from typer.testing import CliRunner

from ruplar.cli import app
from ruplar.errors import UserError
from ruplar.evaluate.record import read_record, read_samples, write_record, write_samples
from ruplar.report.csv_rows import to_csv
from ruplar.report.rows import FIELDS, collect

ROW = [*FIELDS, "acc_per_latent", "marks"]
BEST = ["best", "difference", "difference_low", "difference_high", "p", "p_holm", "test"]
AGAINST = ["against", *(f"against_{name}" for name in BEST[1:])]
PRINTED = ["printed_accuracy", "printed_latents"]


def read(text: str) -> dict[tuple[str, str], dict[str, str]]:
    """Method and benchmark → the cells of its line."""
    return {(line["method"], line["benchmark"]): line for line in csv.DictReader(io.StringIO(text))}


def heading(text: str) -> list[str]:
    return next(csv.reader(io.StringIO(text)))


def cells(line: dict[str, str], names: list[str]) -> list[str]:
    return [line[name] for name in names]


def three(folder):
    """One seed each on eight questions: `all` is right in eight, `some` in four, `few` in two of those four."""
    for label, marks in (("few", "11000000"), ("all", "11111111"), ("some", "11110000")):
        write_run(folder, label, 1, marks)
    return folder


def also_asked(home, name):
    """Ask a run its questions under another benchmark's name too."""
    write_samples([*read_samples(home), *({**row, "benchmark": name} for row in read_samples(home))], home)
    about = read_record(home)
    write_record(about.with_benchmark(about.benchmarks[0].model_copy(update={"name": name})), home)


def test_the_test_against_the_best_stands_in_the_line_of_each_row(tmp_path):
    found = read(to_csv(collect(write_study(tmp_path / "toy")), tests=True))
    assert cells(found["good", "svamp"], BEST) == [""] * 7  # no row is tested against itself
    bad = found["bad", "svamp"]
    assert (bad["best"], bad["test"]) == ("good", "t, seeds and questions")
    # 12.5 % less 62.5 %; the interval and p as in the golden report of test_tables.py and in test_paired.py
    assert [float(value) for value in cells(bad, BEST[1:4])] == pytest.approx([-50.0, -100.0, 15.0], abs=0.05)
    assert [float(value) for value in cells(bad, BEST[4:6])] == pytest.approx([0.0917, 0.0917], abs=5e-5)


def test_p_values_are_corrected_for_the_rows_compared(tmp_path):
    found = read(to_csv(collect(three(tmp_path)), tests=True, against="few"))
    columns = ("best", "difference", "p", "p_holm", "test")
    # McNemar's: six questions all one way, 2 / 2^6; four, 2 / 2^4. Holm: the smaller twice, the larger once
    assert cells(found["few", "svamp"], columns) == ["all", "-75.0", "0.03125", "0.0625", "McNemar, questions"]
    assert cells(found["some", "svamp"], columns) == ["all", "-50.0", "0.125", "0.125", "McNemar, questions"]
    # against `few`: the same six the other way; two, 2 / 2^2
    columns = ("against", "against_difference", "against_p", "against_p_holm")
    assert cells(found["all", "svamp"], columns) == ["few", "75.0", "0.03125", "0.0625"]
    assert cells(found["some", "svamp"], columns) == ["few", "25.0", "0.5", "0.5"]
    assert cells(found["few", "svamp"], AGAINST) == [""] * 7


def test_where_the_named_row_was_not_asked_the_cells_are_empty(tmp_path):
    also_asked(three(tmp_path) / "all-seed1", "multiarith")
    also_asked(tmp_path / "some-seed1", "multiarith")
    found = read(to_csv(collect(tmp_path), tests=True, against="few"))
    assert len(found) == 5 and cells(found["some", "multiarith"], AGAINST) == [""] * 7
    # on its own there: of one comparison nothing is corrected
    assert cells(found["some", "multiarith"], ["best", "p", "p_holm"]) == ["all", "0.125", "0.125"]
    with pytest.raises(UserError, match="unknown row 'al'. Did you mean 'all'"):
        to_csv(collect(tmp_path), against="al")


def test_the_papers_numbers_are_those_of_the_method_on_the_same_benchmark(tmp_path):
    folder = write_study(tmp_path / "toy")
    for seed in (1, 2):
        also_asked(folder / f"good-seed{seed}", "multiarith")
        also_asked(folder / f"good-seed{seed}", "valid")
    found = read(to_csv(collect(folder), printed=True))
    # its study.json says that `good` is the paper's RuPLaR-Mix: 54.3 / 1.59 on SVAMP, 95 / 2.03 on MultiArith
    assert [float(value) for value in cells(found["good", "svamp"], PRINTED)] == [54.3, 1.59]
    assert [float(value) for value in cells(found["good", "multiarith"], PRINTED)] == [95, 2.03]
    assert cells(found["good", "valid"], PRINTED) == cells(found["bad", "svamp"], PRINTED) == ["", ""]
    assert found["good", "svamp"]["accuracy"] == "62.5"  # ours stays ours


def reported(*words) -> str:
    done = CliRunner().invoke(app, ["report", *map(str, words)])
    assert done.exit_code == 0, done.output
    return done.output


def test_a_studys_csv_has_tests_and_printed_numbers_unless_they_are_turned_off(tmp_path):
    folder = write_study(tmp_path / "toy")
    assert heading(reported(folder, "--as", "csv")) == [*ROW, *BEST, *PRINTED]
    whole = reported(folder, "--as", "csv", "--against", "bad")
    assert heading(whole) == [*ROW, *BEST, *AGAINST, *PRINTED] and len(whole.splitlines()) == 3
    assert read(whole)["good", "svamp"]["against_difference"] == "50.0"
    assert heading(reported(folder, "--as", "csv", "--no-tests")) == [*ROW, *PRINTED]
    assert heading(reported(folder, "--as", "csv", "--no-tests", "--against", "bad")) == [*ROW, *AGAINST, *PRINTED]
    plain = reported(folder, "--as", "csv", "--no-tests", "--no-printed")
    assert heading(plain) == ROW
    # further columns stand after those, which stay as they were
    assert [line.startswith(short) for line, short in zip(whole.splitlines(), plain.splitlines(), strict=True)] == [
        True, True, True,
    ]  # fmt: skip


def test_outside_a_study_the_csv_has_tests_where_they_are_asked_for(tmp_path):
    write_record(record(), tmp_path / "a")
    assert heading(reported(tmp_path, "--as", "csv")) == ROW
    assert heading(reported(tmp_path, "--as", "csv", "--tests")) == [*ROW, *BEST]
    # nothing to compare it with
    assert cells(read(reported(tmp_path, "--as", "csv", "--tests"))["ruplar", "svamp"], BEST) == [""] * 7


def test_json_holds_the_rows_alone_and_refuses_tests(tmp_path):
    folder = write_study(tmp_path / "toy")
    for form in (["--json"], ["--as", "json"]):
        for more in ([], ["--no-tests"]):
            assert [tuple(row) for row in json.loads(reported(folder, *form, *more))] == [FIELDS, FIELDS]
        for more, word in ((["--tests"], "--tests"), (["--against", "bad"], "--against")):
            done = CliRunner().invoke(app, ["report", str(folder), *form, *more])
            assert isinstance(done.exception, UserError) and not done.output
            assert str(done.exception).startswith(word) and "CSV has the tests" in str(done.exception)


def test_names_are_printed_as_they_are(tmp_path):
    write_run(tmp_path, "a:x:b, [bold]c", 1, "10")  # neither a picture nor a style of the terminal's
    assert ("a:x:b, [bold]c", "svamp") in read(reported(tmp_path, "--as", "csv"))
