"""lm-evaluation-harness asks the server through its own clients: its bodies are taken, and where it is installed it is run."""

import json
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from serve_toys import APPLES

pytestmark = pytest.mark.slow

TASKS = Path(__file__).parents[2] / "benchmarks" / "lm_eval"


def test_the_bodies_it_sends_are_answered(served):
    common = {"model": "embedded", "max_tokens": 64, "temperature": 0, "stop": ["\n"], "seed": 1234}  # as of 0.4.13
    plain = httpx.post(f"{served.url}/v1/completions", json=common | {"prompt": [APPLES]}).json()
    assert [(c["index"], c["text"]) for c in plain["choices"]] == [(0, "10")]
    messages = [{"role": "user", "content": APPLES, "type": "text"}]
    chat = httpx.post(f"{served.url}/v1/chat/completions", json=common | {"messages": messages}).json()
    assert chat["choices"][0]["message"]["content"] == "10"
    scored = common | {"prompt": [APPLES], "logprobs": 1, "echo": True}  # its other kind of request cannot be honoured
    refused = httpx.post(f"{served.url}/v1/completions", json=scored)
    assert refused.status_code == 400 and refused.json()["error"]["param"] == "logprobs"


@pytest.mark.parametrize("kind", ["local-completions", "local-chat-completions"])
def test_it_runs_a_task_file(served, offline, tmp_path, kind):
    for package in ("lm_eval", "tenacity"):  # the latter comes with the extra
        pytest.importorskip(package, reason='pip install "lm_eval[api]" to run it')
    from ruplar.problems.word_problems import generate

    rows = [{"problem": e.question, "answer": e.answer} for e in generate(12, 5, split="test")]
    (tmp_path / "problems.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    route = "chat/completions" if "chat" in kind else "completions"
    options = f"model=embedded,base_url={served.url}/v1/{route},num_concurrent=2,tokenizer_backend=None,tokenized_requests=False"
    words = ["--model", kind, "--model_args", options, "--tasks", "ruplar_word_problems", "--include_path", str(TASKS)]
    words += ["--output_path", "out", *(["--apply_chat_template"] if "chat" in kind else [])]
    command = [sys.executable, "-m", "lm_eval", *words]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, timeout=300)
    [file] = tmp_path.glob("out/**/results_*.json")
    found = json.loads(file.read_text(encoding="utf-8"))["results"]["ruplar_word_problems"]["exact_match,number"]
    answers = offline.ask([row["problem"] for row in rows])
    right = sum(answer.text == row["answer"] for answer, row in zip(answers, rows, strict=True))
    assert found == pytest.approx(right / len(rows))
