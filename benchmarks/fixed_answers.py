"""A model → its answers to 64 fixed questions of SVAMP, written beside it, or compared with those that are.

    python benchmarks/fixed_answers.py models/smollm2-135m-ruplar             writes models/smollm2-135m-ruplar/ci-answers.json
    python benchmarks/fixed_answers.py models/smollm2-135m-ruplar --check     tells where answers differ; ends with status 1

The questions are every fifteenth of svamp-test.jsonl, from the first on. They are asked on a CPU, in float32, greedily: what the
tests repeat. The answers are no result: tables come from `ruplar evaluate`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from pathlib import Path
from typing import Any

FILE, SET, COUNT, EVERY = "ci-answers.json", "svamp", 64, 15


def answers(model: str | Path, data_dir: Path | None = None, count: int = COUNT) -> dict[str, Any]:
    """What the model says to each of the first `count` questions, and in how many soft tokens it thought."""
    from ruplar.data.sources import SourceConfig, open_source
    from ruplar.reasoner import LatentReasoner

    reasoner = LatentReasoner.from_pretrained(model, device="cpu", dtype="float32")
    domain = reasoner.model.domain
    found = open_source(SourceConfig(source=SET), domain, need_steps=False, data_dir=data_dir).examples
    asked = found[: count * EVERY : EVERY]
    said = reasoner.ask([example.question for example in asked], batch_size=16)
    marked = [domain.extract(answer.text) for answer in said]
    right = sum(m is not None and domain.same(m, e.answer) for m, e in zip(marked, asked, strict=True))
    questions = "\n".join(example.question for example in asked)
    return {
        "set": SET,
        "every": EVERY,
        "questions_sha256": hashlib.sha256(questions.encode()).hexdigest(),
        "right": right,
        "answers": [answer.text for answer in said],
        "latents": [answer.latent_count for answer in said],
    }


def differences(recorded: dict[str, Any], found: dict[str, Any]) -> list[str]:
    """One line for each thing that is not as recorded; where fewer were asked, of their answers alone."""
    asked = len(found["answers"])
    whole = ("set", "every", "questions_sha256", "right") if asked == COUNT else ()
    told = [f"{key}: recorded {recorded[key]}, found {found[key]}" for key in whole if recorded[key] != found[key]]
    for i in range(asked):
        ours, theirs = ((d["answers"][i], d["latents"][i]) for d in (found, recorded))
        if ours != theirs:
            told.append(f"question {i * EVERY + 1}: recorded {theirs}, found {ours}")
    return told


def main() -> None:
    """Write the file, or compare with it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path, help="a model folder")
    parser.add_argument("--check", action="store_true", help="compare with the file instead of writing it")
    parser.add_argument("--data-dir", type=Path, help="folder of svamp-test.jsonl")
    options = parser.parse_args()
    file, found = options.model / FILE, answers(options.model, options.data_dir)
    if options.check:
        told = differences(json.loads(file.read_text(encoding="utf-8")), found)
        print("\n".join(told) or f"all {COUNT} as recorded, {found['right']} of them right")
        raise SystemExit(bool(told))
    file.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"{COUNT} answers, {found['right']} of them right, in {file}")


if __name__ == "__main__":
    main()
