r"""Accuracy of records without the test questions that share consecutive words with a training problem.

    python benchmarks/near_questions.py word-problems:situations --count 200000 --seed 1 --on svamp,multiarith \
        "results/smollm2/CoT-SFT_(canonical_operands)-seed1"

Numbers are masked. Training data excludes problems that share 13 words with a test question; this script measures how much of
an accuracy depends on questions that share fewer: eight, or `--words`.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from pathlib import Path


def runs(question: str, length: int) -> Iterator[tuple[str, ...]]:
    """Return all sequences of `length` consecutive words, numbers masked."""
    from ruplar.data.decontamination import masked, words

    found = masked(words(question))
    return (tuple(found[i : i + length]) for i in range(len(found) - length + 1))


def near(problems: Iterable[str], questions: dict[str, list[str]], length: int) -> dict[str, set[int]]:
    """Return test set → indices of its questions that share a sequence with a problem."""
    theirs = {name: [set(runs(q, length)) for q in texts] for name, texts in questions.items()}
    known = {run for found in theirs.values() for one in found for run in one}
    shared = {run for problem in problems for run in runs(problem, length) if run in known}
    return {name: {i for i, one in enumerate(found) if one & shared} for name, found in theirs.items()}


def scores(record: Path, name: str, left_out: set[int]) -> tuple[float, float]:
    """Return the accuracy (%) on a test set, with and without the excluded questions."""
    from ruplar.evaluate.record import read_samples

    marks = [(row["index"], row["correct"]) for row in read_samples(record) if row["benchmark"] == name]
    rest = [right for index, right in marks if index not in left_out]
    return 100 * sum(right for _, right in marks) / len(marks), 100 * sum(rest) / len(rest)


def main() -> None:
    """Print one line per record and test set."""
    from ruplar import plugins
    from ruplar.data.sources import SourceConfig, open_source

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", help="training data, e.g. word-problems:situations")
    parser.add_argument("records", type=Path, nargs="+", help="folders with run.json and samples")
    parser.add_argument("--count", type=int, required=True, help="number of training problems")
    parser.add_argument("--seed", type=int, required=True, help="random seed of the training problems")
    parser.add_argument("--on", default="svamp,multiarith", help="comma-separated test sets")
    parser.add_argument("--words", type=int, default=8, help="number of consecutive words")
    parser.add_argument("--data-dir", type=Path, help="folder of the test sets' files")
    options = parser.parse_args()
    domain = plugins.make("domains", "arithmetic")
    trained = SourceConfig.model_validate({"source": options.source, "count": options.count, "seed": options.seed})
    problems = (e.question for e in open_source(trained, domain, split="train").examples)
    questions = {
        name: [e.question for e in open_source(SourceConfig(source=name), domain, need_steps=False, data_dir=options.data_dir).examples]
        for name in options.on.split(",")
    }  # fmt: skip
    found = near(problems, questions, options.words)
    for name, places in found.items():
        print(f"{name}: {len(places)} of {len(questions[name]):,} share {options.words} consecutive words")
    for record in options.records:
        for name, places in found.items():
            print(f"{record.name}  {name}  all {{:.1f}}  without {{:.1f}}".format(*scores(record, name, places)))


if __name__ == "__main__":
    main()
