"""Records, cards and tables name what was really asked, keep what was measured, and say what was reused or seen in training."""

import json
import shutil
from pathlib import Path

import pytest

from ruplar import plugins
from ruplar.data.sources import SourceConfig, open_source
from ruplar.errors import UserError
from ruplar.evaluate.question_sets import Part, open_questions
from ruplar.evaluate.record import read_record, read_samples
from ruplar.report.front_matter import front_matter

ARITHMETIC = plugins.make("domains", "arithmetic")


def sums(file: Path, count: int, plus: int = 1) -> Path:
    """Write `count` questions of one's own."""
    file.parent.mkdir(parents=True, exist_ok=True)
    rows = ({"question": f"What is {n}+{plus}?", "answer": str(n + plus)} for n in range(count))
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return file


def names(*on: str, data_dir: Path | None = None) -> list[str]:
    return [questions.name for questions in open_questions(on, ARITHMETIC, data_dir=data_dir)]


def test_a_file_is_called_by_its_path_and_a_known_benchmark_by_its_content(tmp_path, monkeypatch, benchmark_data):
    monkeypatch.chdir(tmp_path)
    sums(tmp_path / "svamp.jsonl", 30)
    assert names("svamp.jsonl") == ["svamp.jsonl"]
    real = benchmark_data("svamp", "gsm8k-aug") / "svamp-test.jsonl"
    shutil.copy(real, tmp_path / "renamed.jsonl")
    assert names("renamed.jsonl") == ["svamp"] and names("svamp", data_dir=real.parent) == ["svamp"]
    assert names(str(real.parent / "gsm8k-aug-test.jsonl")) == ["gsm8k-aug"], "gsm8k-test has the same questions"
    for split in ("train", "valid"):
        with pytest.raises(UserError, match=f"'renamed.jsonl' has the content of 'svamp', a test set.*data.{split}"):
            open_source(SourceConfig(source="renamed.jsonl"), ARITHMETIC, need_steps=False, split=split)


def test_a_file_in_the_place_of_a_benchmark_does_not_get_its_name(tmp_path, monkeypatch, caplog):
    monkeypatch.chdir(tmp_path)
    sums(Path("data/svamp-test.jsonl"), 30)
    assert names("svamp") == ["data/svamp-test.jsonl"] and "is not the content of 'svamp'" in caplog.text
    some = SourceConfig(source="data/svamp-test.jsonl", count=3)
    (all_of_it, part) = open_questions([Part("valid", some, "valid"), some], ARITHMETIC)
    assert (all_of_it.limit, part.limit) == (None, 3), "data.valid may be the first rows of a file"


def test_own_questions_never_enter_a_card_or_table_as_a_benchmark(ruplar, tmp_path):
    sums(tmp_path / "svamp.jsonl", 3)
    words = ("evaluate", "embedded:no_cot", "--on", "svamp.jsonl", "--device", "cpu", "--output", "asked")
    assert ruplar(*words).code == 0
    record = read_record(tmp_path / "asked")
    assert "test: svamp.jsonl" in record.data
    [shown] = front_matter("mine", record, adapter=True, backbone="embedded")["model-index"][0]["results"]
    assert shown["dataset"] == {"name": "svamp.jsonl", "type": "svamp.jsonl"}
    assert "| svamp.jsonl | 3 |" in ruplar("report", "asked").out


def test_an_older_record_named_after_its_file_is_not_published_as_the_benchmark():
    record = read_record(Path(__file__).parents[1] / "results" / "main" / "RuPLaR-plus-seed1")
    for n, place in ((1000, "ChilleD/SVAMP"), (30, "svamp")):
        results = [record.benchmarks[0].model_copy(update={"name": "svamp", "n": n, "correct": 3, "unreadable": 0})]
        one = record.model_copy(update={"benchmarks": results})
        [shown] = front_matter("mine", one, adapter=True, backbone="embedded")["model-index"][0]["results"]
        assert shown["dataset"]["type"] == place


@pytest.mark.slow
def test_a_quick_look_never_replaces_whole_results(ruplar, tmp_path):
    sums(tmp_path / "ten.jsonl", 10)
    words = ("evaluate", "embedded:no_cot", "--on", "ten.jsonl", "--device", "cpu", "--output", "asked")
    assert ruplar(*words).code == 0
    before, samples = (tmp_path / "asked" / "run.json").read_bytes(), read_samples(tmp_path / "asked")
    for _ in range(2):
        said = ruplar(*words, "--limit", "2")
        assert said.code == 0 and "results: asked/partial" in said.err.replace("\n", " ")
    assert (tmp_path / "asked" / "run.json").read_bytes() == before and read_samples(tmp_path / "asked") == samples
    [part] = read_record(tmp_path / "asked" / "partial").benchmarks
    assert (part.n, part.limit) == (2, 2)


@pytest.mark.slow
def test_another_file_of_the_same_name_is_kept_beside(ruplar, tmp_path):
    words = ("evaluate", "embedded:no_cot", "--on", "same.jsonl", "--device", "cpu", "--output", "asked")
    for plus in (1, 2, 1):
        sums(tmp_path / "same.jsonl", 4, plus)
        said = ruplar(*words)
        assert said.code == 0
        assert ("results for other data" in said.err) == (plus == 2)
    first, second = sorted(result.name for result in read_record(tmp_path / "asked").benchmarks)
    assert first == "same.jsonl" and second.startswith("same.jsonl (")
    asked = {row["benchmark"]: row["question"] for row in read_samples(tmp_path / "asked") if row["index"] == 0}
    assert asked == {first: "What is 0+1?", second: "What is 0+2?"}


SMALL = ("training.max_steps=2", "training.warmup_steps=1", "training.per_device_train_batch_size=4")


def chains(file: Path, count: int, *more: dict) -> Path:
    """Write questions with chains to train on."""
    rows = [{"question": f"What is {n}+1?", "steps": [f"{n}+1={n + 1}"], "answer": str(n + 1)} for n in range(count)]
    file.write_text("".join(json.dumps(row) + "\n" for row in (*rows, *more)), encoding="utf-8")
    return file


@pytest.mark.slow
def test_evaluating_on_training_questions_is_told_everywhere(ruplar, tmp_path, caplog):
    from ruplar.model.exported import export_model
    from ruplar.model.store import read_metadata, read_trained_on
    from ruplar.report.card import Written, build_card
    from ruplar.report.model_records import find_model_records

    chains(tmp_path / "train.jsonl", 8)
    words = ("train", "embedded-live", "data.train=train.jsonl", "data.valid=null", *SMALL, "--device", "cpu")
    words = (*words, "training.eval_strategy=no", "training.load_best_model_at_end=false")
    assert ruplar(*words, "--output", "run").code == 0
    sums(tmp_path / "ask.jsonl", 10)  # eight of its questions are those of train.jsonl
    said = ruplar("evaluate", "run", "--on", "ask.jsonl", "--device", "cpu")
    assert said.code == 0 and "the model was trained on 8 of these 10 questions" in caplog.text
    assert "(8 in" in said.out
    run = read_record(tmp_path / "run")
    assert run.benchmarks[0].trained_on == 8
    cap = ("--max-answer-tokens", "2", "--seeds", "3")
    assert ruplar("evaluate", "run", "--on", "ask.jsonl", "--device", "cpu", "--output", "apart", *cap).code == 0
    apart = read_record(tmp_path / "apart")
    assert (apart.name, apart.seed, apart.weights) == (run.name, 777, run.weights) and run.weights
    assert apart.benchmarks[0].decoding == "greedy max-answer-tokens=2"
    table = ruplar("report", "run").out
    assert "⁴ |" in table and "⁴ The model was trained on some of these questions." in table
    metadata = read_metadata(tmp_path / "run" / "model")
    subject = find_model_records(metadata, tmp_path / "run")
    card = build_card(Written("mine", metadata, True, 5_000_000, 1.0), subject)
    assert "8 of the 10 questions of ask.jsonl are in its training data" in card
    export_model(tmp_path / "run", tmp_path / "exported")
    assert len(read_trained_on(tmp_path / "exported")) == 8


@pytest.mark.slow
def test_rows_longer_than_the_window_are_located_and_refused_or_left_out(ruplar, tmp_path):
    steps = [f"{n}+1={n + 1}" for n in range(4000)]
    long = {"question": "What is" + " 2+2" * 9000 + "?", "steps": ["2+2=4"], "answer": "4"}
    chains(tmp_path / "train.jsonl", 8, {"question": "Count.", "steps": steps, "answer": "4000"}, long)
    words = ("train", "embedded-live", "data.train=train.jsonl", "data.valid=null", *SMALL, "--device", "cpu")
    words = (*words, "training.eval_strategy=no", "training.load_best_model_at_end=false")
    for rows, change in ((2, "seed=1"), (10, f"prompt.instruction={'2+' * 1000}")):
        told = ruplar(*words, change, "--output", "refused").err.replace("\n", " ")
        assert f"{rows} rows are longer than the model's window of 1,024 tokens" in told
        assert ("train.jsonl:9, train.jsonl:10" in told) == (rows == 2)
    assert ruplar(*words, "data.skip_bad=true", "--output", "run").code == 0
    assert read_record(tmp_path / "run").left_out["longer than the model's window"] == 2
