"""A run's answers ↔ its files: samples (every thought and answer) and outcomes (right or wrong only).

RUN/samples.jsonl.gz                one row per question
RUN/outcomes.json                   per result a string of 0 and 1, one character per question; enough for paired tests
RESULTS/questions/SHA.jsonl.gz      one benchmark's questions, named by their content; all runs of a results folder share them

RESULTS is the folder that holds the studies; a run is RESULTS/STUDY/RUN.
"""

import gzip
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from ruplar import io
from ruplar.errors import UserError
from ruplar.types import Answer, Example, Latent, Score

SAMPLES, OUTCOMES, QUESTIONS = "samples.jsonl.gz", "outcomes.json", "questions"
_QUESTION_KEY, _QUESTION_FIELDS = ("benchmark", "index"), ("source", "question", "marked", "steps")
_LEAST_TOKENS = 10

Sample = dict[str, Any]
ResultKey = tuple[str, int, bool, str]
"""Benchmark, seed of the decoding, lenient grading, decoding ("" in rows that do not name it)."""
Outcomes = Mapping[tuple[int, str], bool]
"""Question, by its index and text → right or wrong."""


def sample(name: str, seed: int, index: int, example: Example, answer: Answer, graded: Score) -> Sample:
    """Make one row of samples.jsonl.gz."""
    return {
        "benchmark": name,
        "seed": seed,
        "index": index,
        "source": example.source,
        "question": example.question,
        "marked": example.answer,
        "steps": list(example.steps),
        "found": graded.found,
        "correct": graded.correct,
        **asdict(replace(answer, latents=())),
        "latents": [_rounded(latent) for latent in answer.latents],
    }


def _rounded(latent: Latent) -> dict[str, Any]:
    """Round a soft token to four decimals; beyond the ten most likely tokens, drop those that round to zero."""
    probs = [rounded for i, prob in enumerate(latent.probs) if (rounded := round(prob, 4)) > 0 or i < _LEAST_TOKENS]
    return {
        "tokens": latent.tokens[: len(probs)],
        "probs": probs,
        "entropy": round(latent.entropy, 4),
        "halt": round(latent.halt, 6),
    }


def write_samples(rows: Iterable[Mapping[str, Any]], folder: str | Path, share: bool = False) -> Path:
    """Write `folder/samples.jsonl.gz`; equal rows give equal bytes.

    With `share` the results folder stores the questions, most of the bytes, once for all runs.
    """
    rows = list(rows)
    if share:
        questions = write_questions(rows, folder)
        rows = [
            {**{k: v for k, v in row.items() if k not in _QUESTION_FIELDS}, "asked": questions[row["benchmark"]][0]}
            if questions[row["benchmark"]][1][row["index"]] == _question(row)
            else row  # two results of one benchmark with different questions: the second stays in the row
            for row in rows
        ]
    return io.write_bytes(Path(folder) / SAMPLES, gzip.compress(_lines(rows), mtime=0))


def read_samples(folder: str | Path) -> list[Sample]:
    """Read the rows given to `write_samples`."""
    rows = _read_lines(Path(folder) / SAMPLES)
    for row in rows:
        name = row.pop("asked", None)
        if name is not None:
            row.update(_questions(folder, name, SAMPLES)[row["benchmark"], row["index"]])
    return rows


def read_outcomes(folder: str | Path) -> Mapping[ResultKey, Outcomes]:
    """Read right or wrong per question from a run's samples, else from its outcomes; {} where it has neither."""
    folder = Path(folder)
    file = next((file for file in (folder / SAMPLES, folder / OUTCOMES) if file.is_file()), None)
    return {} if file is None else _outcomes(file, file.stat().st_mtime_ns)


def read_steps(folder: str | Path, benchmark: str) -> Mapping[tuple[int, str], int]:
    """Read the number of steps of each question's reference chain, by index and text; 0 where no chain is on record."""
    folder = Path(folder)
    if (folder / SAMPLES).is_file():
        rows: Iterable[Mapping[str, Any]] = read_samples(folder)
    else:
        results = json.loads((folder / OUTCOMES).read_text(encoding="utf-8"))
        files = {result["questions"] for result in results if result["benchmark"] == benchmark}
        rows = [row for name in files for row in _questions(folder, name, OUTCOMES).values()]
    return {(r["index"], r["question"]): len(r.get("steps", ())) for r in rows if r["benchmark"] == benchmark}


@lru_cache(maxsize=256)
def _outcomes(file: Path, written: int) -> Mapping[ResultKey, Outcomes]:
    found: dict[ResultKey, dict[tuple[int, str], bool]] = {}
    if file.name == SAMPLES:
        for row in read_samples(file.parent):
            found.setdefault(result_key(row), {})[row["index"], row["question"]] = bool(row["correct"])
        return found
    try:
        for result in json.loads(file.read_text(encoding="utf-8")):
            known = _questions(file.parent, result["questions"], OUTCOMES)
            texts = [(i, known[result["benchmark"], i]["question"]) for i in range(len(result["right"]))]
            found[result_key(result)] = {text: mark == "1" for text, mark in zip(texts, result["right"], strict=True)}
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{file}: not a file of outcomes ({error!r}). Evaluate the run again.") from error
    return found


def result_key(row: Mapping[str, Any], unnamed: str = "") -> ResultKey:
    """Return the `BenchmarkResult.key` of a row's result; `unnamed` is the decoding of a row that names none."""
    return row["benchmark"], row["seed"], row.get("lenient", False), row.get("decoding", unnamed)


def _question(row: Mapping[str, Any]) -> dict[str, Any]:
    """Select what a row says about its question; rows of older runs may say less."""
    return {key: row[key] for key in (*_QUESTION_KEY, *_QUESTION_FIELDS) if key in row}


def write_questions(rows: Iterable[Mapping[str, Any]], folder: str | Path) -> dict[str, tuple[str, dict[int, Sample]]]:
    """Write each benchmark's questions to the results folder → benchmark → file name, and its questions by index."""
    by_benchmark: dict[str, dict[int, Sample]] = {}
    for row in rows:
        by_benchmark.setdefault(row["benchmark"], {}).setdefault(row["index"], _question(row))
    found = {}
    for benchmark, questions in by_benchmark.items():
        content = _lines(questions.values())
        name = f"{hashlib.sha256(content).hexdigest()[:12]}.jsonl.gz"
        file = Path(folder).resolve().parent.parent / QUESTIONS / name
        if not file.is_file():
            io.write_bytes(file, gzip.compress(content, mtime=0))
        found[benchmark] = name, questions
    return found


def _questions(folder: str | Path, name: str, used_by: str) -> Mapping[tuple[str, int], Sample]:
    file = Path(folder).resolve().parent.parent / QUESTIONS / name
    if not file.is_file():
        raise UserError(f"{Path(folder) / used_by}: its questions are in {file}, which is missing. Copy it too.")
    return _read_questions(file, file.stat().st_mtime_ns)


@lru_cache(maxsize=32)
def _read_questions(file: Path, written: int) -> Mapping[tuple[str, int], Sample]:
    return {(one["benchmark"], one["index"]): one for one in _read_lines(file)}


def _lines(rows: Iterable[Mapping[str, Any]]) -> bytes:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


def _read_lines(file: Path) -> list[Sample]:
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]
