"""A study's page of the results appendix is made from its records: it names the question, fits a page, and hides details."""

from __future__ import annotations

from pathlib import Path

import pytest
from report_toys import write_run, write_study
from scripts import script
from typer.testing import CliRunner

from ruplar.cli import app
from ruplar.errors import UserError
from ruplar.evaluate.record import read_record, write_record
from ruplar.report.rows import collect
from ruplar.report.study_page import study_page, write_study_page
from ruplar.report.tables import summary_table

RESULTS = Path(__file__).parents[2] / "results"


def page_of(folder):
    return study_page(folder, collect(folder), Path("docs/toy.md"))


def test_a_page_has_question_table_tests_and_settings(tmp_path):
    rows = {
        "good": {"label": "good", "set": ["a=1", "b=2"], "of": None},
        "bad": {"label": "bad", "set": ["a=1"], "of": "good"},
    }
    folder = write_study(tmp_path / "toy", about="Is good better than bad?", reference="good", rows=rows)
    text = page_of(folder)
    assert text.startswith(
        f"<!-- made by: ruplar report {folder} --page docs/toy.md -->\n# Study toy\n\nIs good better than bad?\n"
    )
    assert "| good | 2 | 62.5 ±37.5 | 2.00 | 7.0 |" in text, "half of 17.8 to 92.8"
    assert "<summary>Paired tests against good</summary>" in text and "| bad | good | svamp | 4 |" in text
    assert "| good | `b=2` |" in text and "| bad | models of good |" in text and "All rows: `a=1`." in text
    assert text.count("<details>") == text.count("</details>") == 7 and "46 / 3" in text, "the paper's numbers too"


def test_a_page_made_from_outcomes_equals_the_one_made_from_samples(tmp_path):
    folder = write_study(tmp_path / "results" / "toy")
    before = page_of(folder)
    assert all(script("compact_results").compact(run) for run in folder.iterdir() if run.is_dir())
    assert page_of(folder) == before and "Paired tests against the best" in before


def test_the_selection_set_is_in_the_details_only(tmp_path):
    for label, right in (("a", "1110"), ("b", "1000")):
        home = write_run(tmp_path, label, 1, right)
        record = read_record(home)
        write_record(record.with_benchmark(record.benchmarks[0].model_copy(update={"name": "valid"})), home)
    table = summary_table(collect(tmp_path))
    assert table.names == ("method", "seeds", "SVAMP", "#L", "forward passes")
    text = page_of(tmp_path)
    assert "| a | valid (selection) |" not in text.split("<details>")[0] and "| a | valid (selection) |" in text
    assert "it is not a test set" in text


def test_what_cannot_be_paired_is_said_and_bench_records_have_a_page(tmp_path):
    write_run(tmp_path / "toy", "a", 1, "10")
    write_run(tmp_path / "toy", "b", 1, "100")
    assert "Paired tests are not possible: svamp: 'a' and 'b'" in page_of(tmp_path / "toy").replace(
        "'b' and 'a'", "'a' and 'b'"
    )
    [file] = write_study_page(RESULTS / "bench", tmp_path / "bench.md")
    assert "<summary>latency, llama-3.2-1b, NVIDIA H200</summary>" in file.read_text()


@pytest.mark.parametrize("study", [pytest.param("smollm2", marks=pytest.mark.long), "main", "efficiency"])
def test_tables_of_committed_studies_fit_a_page(study):
    text = study_page(RESULTS / study, collect(RESULTS / study), Path(f"docs/results/{study}.md"))
    heads = [
        line for line, rule in zip(text.splitlines(), text.splitlines()[1:], strict=False) if rule.startswith("| ---")
    ]
    assert len(heads) >= 3 and all(head.count("|") - 1 <= 10 for head in heads), heads
    if study == "smollm2":
        assert (
            heads[0]
            == "| method | seeds | GSM8K | GSM-Hard | SVAMP | MultiArith | macro-average | % of CoT | #L | forward passes |"
        )
        assert "**Latent ablation**" in text
    if study == "efficiency":
        assert "| ms at batch size 1 | inference memory (GB) |" in text.split("<details>")[0]


def test_the_verb_writes_the_page_with_its_figure(tmp_path):
    page = tmp_path / "docs" / "priors.md"
    done = CliRunner().invoke(
        app, ["report", str(RESULTS / "priors"), "--page", str(page), "--against", "Random prior"]
    )
    assert done.exit_code == 0, done.output
    assert page.read_text().startswith(
        f"<!-- made by: ruplar report {RESULTS / 'priors'} --page {page} --against 'Random prior' -->"
    )
    assert "<summary>Paired tests against RuPLaR-Mix</summary>" in page.read_text(), "the study's own reference"
    assert "<summary>Paired tests against Random prior</summary>" in page.read_text()
    assert "](priors.png)" in page.read_text() and page.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    done = CliRunner().invoke(app, ["report", str(RESULTS / "priors"), str(RESULTS / "main"), "--page", str(page)])
    assert isinstance(done.exception, UserError) and "give one folder" in str(done.exception)
