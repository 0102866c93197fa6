"""lm-evaluation-harness with `--model ruplar`, through its own command line: the scores of `ruplar evaluate`, question by question."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("lm_eval", reason="lm-eval is not installed (pip install -e '.[lm-eval]')")

from ruplar.engine.sampling import Decoding  # noqa: E402
from ruplar.errors import UserError  # noqa: E402
from ruplar.evaluate.benchmark import evaluate  # noqa: E402
from ruplar.evaluate.lm_eval import RuplarLM, decoding_of  # noqa: E402

TASKS = Path(__file__).parents[2] / "benchmarks" / "lm_eval"
RELEASED = TASKS.parents[1] / "models" / "smollm2-135m-ruplar"


def lm_eval(folder: Path, *words: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "ruplar.evaluate.lm_eval", "--model", "ruplar", "--include_path", str(TASKS)]
    command += ["--model_args", "pretrained=embedded", "--tasks", "ruplar_word_problems", "--device", "cpu"]
    return subprocess.run([*command, *words], cwd=folder, capture_output=True, text=True)


def logged(folder: Path) -> list[dict]:
    [file] = folder.rglob("samples_*.jsonl")
    return sorted((json.loads(line) for line in file.read_text().splitlines()), key=lambda row: row["doc_id"])


@pytest.mark.slow
@pytest.mark.parametrize("words", [(), ("--apply_chat_template",)], ids=["plain", "chat"])
def test_lm_eval_scores_every_question_as_evaluate_does(tmp_path, words):
    from ruplar.problems.word_problems import generate

    rows = [{"problem": e.question, "answer": str(e.answer)} for e in generate(120, 8)]
    (tmp_path / "problems.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    done = lm_eval(tmp_path, "--batch_size", "16", "--log_samples", "--output_path", "out", "--limit", "100", *words)
    assert done.returncode == 0, done.stderr[-3000:]
    found = logged(tmp_path / "out")
    wanted = evaluate("embedded", [str(tmp_path / "problems.jsonl")], limit=100).samples
    assert [row["resps"][0][0] for row in found] == [row["text"] for row in wanted]
    assert [bool(row["exact_match"]) for row in found] == [row["correct"] for row in wanted]
    assert 50 < sum(row["correct"] for row in wanted) < 100  # both outcomes occur


@pytest.mark.long
def test_lm_evals_own_command_scores_gsm8k_as_evaluate_does(tmp_path, benchmark_data, monkeypatch, smollm2):
    monkeypatch.setenv("RUPLAR_DATA", str(benchmark_data("gsm8k-train", "gsm8k-aug-valid")))
    command = [sys.executable, "-m", "lm_eval", "--model", "ruplar", "--model_args", f"pretrained={RELEASED}"]
    command += [
        "--tasks",
        str(TASKS / "ruplar_gsm8k.yaml"),
        "--metadata",
        '{"source": "gsm8k-dev"}',
        "--device",
        "cpu",
    ]
    command += ["--limit", "200", "--batch_size", "64", "--log_samples", "--output_path", "out"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    found, wanted = logged(tmp_path / "out"), evaluate(RELEASED, ["gsm8k-dev"], limit=200).samples
    assert [row["doc"]["question"] for row in found] == [row["question"] for row in wanted]
    assert [row["resps"][0][0] for row in found] == [row["text"] for row in wanted]
    assert [bool(row["exact_match"]) for row in found] == [row["correct"] for row in wanted]
    assert 20 < sum(row["correct"] for row in wanted) < 180  # both outcomes occur


def test_generation_settings_of_a_task_become_the_engines_and_unknown_ones_are_refused():
    assert decoding_of({"until": ["\n"], "max_gen_toks": 5, "temperature": 0}, 64) == Decoding(max_answer_tokens=5)
    assert decoding_of({"do_sample": True, "seed": 3}, 64) == Decoding(temperature=1.0, seed=3)
    assert decoding_of({"do_sample": False, "temperature": 0.7}, 64) == Decoding()
    with pytest.raises(UserError, match=r"generation_kwargs: \['num_beams'\] are not supported"):
        decoding_of({"num_beams": 4}, 64)


def test_likelihoods_conversations_and_missing_models_are_refused_by_name():
    model = RuplarLM("embedded", device="cpu")
    for refused in (model.loglikelihood, model.loglikelihood_rolling):
        with pytest.raises(UserError, match="loglikelihood: not supported.*embedded thinks before.* generate_until"):
            refused([])
    with pytest.raises(UserError, match="answers a single user message"):
        model.apply_chat_template([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "1+1?"}])
    with pytest.raises(UserError, match="pretrained=FOLDER"):
        RuplarLM()
    with pytest.raises(UserError, match="--batch_size: 'auto'"):
        RuplarLM("embedded", batch_size="auto")
