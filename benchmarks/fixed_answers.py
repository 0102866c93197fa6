"""Write a model's answers to 64 fixed questions of SVAMP next to it, or compare with the recorded ones.

    python benchmarks/fixed_answers.py models/smollm2-135m-ruplar             writes models/smollm2-135m-ruplar/ci-answers.json
    python benchmarks/fixed_answers.py models/smollm2-135m-ruplar --check     prints differences; exits with status 1

The questions are every fifteenth of svamp-test.jsonl, answered greedily in float32 on a CPU, as in the tests. They are not an
evaluation: tables come from `ruplar evaluate`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from pathlib import Path
from typing import Any

FILE, SET, COUNT, EVERY = "ci-answers.json", "svamp", 64, 15


def answers(model: str | Path, data_dir: Path | None = None, count: int = COUNT) -> dict[str, Any]:
    """Return the model's answers to the first `count` questions and their numbers of latents."""
    from ruplar.data.sources import SourceConfig, open_source
    from ruplar.reasoner import LatentReasoner

    reasoner = LatentReasoner.from_pretrained(model, device="cpu", dtype="float32")
    domain = reasoner.model.domain
    found = open_source(SourceConfig(source=SET), domain, need_steps=False, data_dir=data_dir).examples
    examples = found[: count * EVERY : EVERY]
    answered = reasoner.ask([example.question for example in examples], batch_size=16)
    marked = [domain.extract(answer.text) for answer in answered]
    right = sum(m is not None and domain.same(m, e.answer) for m, e in zip(marked, examples, strict=True))
    questions = "\n".join(example.question for example in examples)
    return {
        "set": SET,
        "every": EVERY,
        "questions_sha256": hashlib.sha256(questions.encode()).hexdigest(),
        "right": right,
        "answers": [answer.text for answer in answered],
        "latents": [answer.latent_count for answer in answered],
    }


def differences(recorded: dict[str, Any], found: dict[str, Any]) -> list[str]:
    """Return one line per difference from the record; with fewer questions, only their answers are compared."""
    count = len(found["answers"])
    whole = ("set", "every", "questions_sha256", "right") if count == COUNT else ()
    lines = [f"{key}: recorded {recorded[key]}, found {found[key]}" for key in whole if recorded[key] != found[key]]
    for i in range(count):
        ours, theirs = ((d["answers"][i], d["latents"][i]) for d in (found, recorded))
        if ours != theirs:
            lines.append(f"question {i * EVERY + 1}: recorded {theirs}, found {ours}")
    return lines


def main() -> None:
    """Write the file, or compare with it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path, help="a model folder")
    parser.add_argument("--check", action="store_true", help="compare with the file instead of writing it")
    parser.add_argument("--data-dir", type=Path, help="folder of svamp-test.jsonl")
    options = parser.parse_args()
    file, found = options.model / FILE, answers(options.model, options.data_dir)
    if options.check:
        lines = differences(json.loads(file.read_text(encoding="utf-8")), found)
        print("\n".join(lines) or f"all {COUNT} answers as recorded, {found['right']} of them correct")
        raise SystemExit(bool(lines))
    file.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"{COUNT} answers, {found['right']} of them correct, in {file}")


if __name__ == "__main__":
    main()
