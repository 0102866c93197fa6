"""A model and names of benchmarks → results with their intervals, and one sample row a question.

    source –open→ questions –reasoner→ answers –score→ BenchmarkResult + samples

Every question of a benchmark counts, repeated ones too. Nothing is left out in silence: a row that cannot be read stops
the run, an answer that cannot be read is wrong and counted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from ruplar import plugins
from ruplar.backbone.memory import forget_peak, peak_memory_gb
from ruplar.chains.sources import SourceConfig, open_source
from ruplar.domains.base import Domain
from ruplar.engine.sampling import Decoding
from ruplar.engine.thinker import TextThinker
from ruplar.errors import UserError
from ruplar.evaluate.record import BenchmarkResult
from ruplar.evaluate.score import lenient as lenient_domain
from ruplar.evaluate.score import score
from ruplar.evaluate.stats import Estimate, mcnemar, paired_difference
from ruplar.reasoner import LatentReasoner
from ruplar.records import Answer, Example, Score
from ruplar.store import Model

Progress = Callable[[str, int, int], None]
"""Called after each batch with the benchmark's name, the questions answered so far and all of them."""

Sample = dict[str, Any]


@dataclass
class Evaluation:
    """What came out of `evaluate`.

    Attributes:
        results: One a benchmark and, for sampled answers, seed; in the order asked for.
        samples: One row a question, in the same order; what `write_samples` takes.
        sources: What run.json keeps of each benchmark's source.
    """

    results: list[BenchmarkResult] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    sources: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True)
class _Questions:
    """One benchmark, opened: its name, the questions to ask, the limit where it cuts some off."""

    name: str
    examples: Sequence[Example]
    limit: int | None
    record: dict[str, Any]


def evaluate(
    reasoner: LatentReasoner,
    on: Sequence[str | SourceConfig],
    *,
    limit: int | None = None,
    seeds: Sequence[int] = (0,),
    decoding: Decoding | None = None,
    batch_size: int = 64,
    lenient: bool = False,
    latency_questions: int = 0,
    data_dir: str | Path | None = None,
    on_progress: Progress | None = None,
) -> Evaluation:
    """Ask a model the questions of each benchmark and grade its answers.

    Args:
        reasoner: The model.
        on: Names, files, Hub sets or word problems; all are opened before the first question is asked.
        limit: Only the first questions of each; such a result enters no table.
        seeds: Of sampled answers, one result each. A greedy run has no chance in it and is made once.
        decoding: How answers are decoded; greedy when None.
        batch_size: Questions answered at a time.
        lenient: Grade by the published code's rule; the result says so.
        latency_questions: Ask this many of the first questions once more, one at a time, for `ms_alone`.
        data_dir: Folder with the files of known benchmarks.
        on_progress: See `Progress`.

    Raises:
        UserError: A benchmark cannot be found or read, or holds no question.
    """
    if limit is not None and limit < 1:
        raise UserError(f"limit: must be at least 1, got {limit}. Leave it out to ask every question.")
    if not seeds:
        raise UserError("seeds: none given. Name at least one.")
    decoding = decoding or Decoding()
    model = reasoner.model
    domain = lenient_domain(model.domain) if lenient else model.domain
    sets = [_opened(entry, model.domain, limit, data_dir) for entry in on]
    _check_names([questions.name for questions in sets])
    found = Evaluation(sources=[questions.record for questions in sets])
    for questions in sets:
        for seed in seeds if decoding.temperature > 0 else [0]:
            how = replace(decoding, seed=seed)
            tell = counted(questions.name, len(questions.examples), on_progress)
            result, samples = _run(reasoner, questions, domain, how, batch_size, tell)
            result = result.model_copy(
                update={"lenient": lenient, "ms_alone": _alone(reasoner, questions, how, latency_questions)}
            )
            found.results.append(result)
            found.samples += samples
    return found


def _check_names(names: Sequence[str]) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UserError(
            f"two benchmarks are both called {', '.join(twice)}, so a record could hold only one. Rename a file, or ask "
            "them in two runs with different outputs."
        )


def _opened(entry: str | SourceConfig, domain: Domain, limit: int | None, data_dir: str | Path | None) -> _Questions:
    try:
        config = SourceConfig.model_validate(entry)
    except ValidationError as error:
        raise UserError(*(e["msg"].removeprefix("Value error, ") for e in error.errors()), where=str(entry)) from error
    opened = open_source(config, domain, need_steps=False, duplicates="keep", data_dir=data_dir)
    if not opened.examples:
        raise UserError(f"{config.name}: holds no question to ask.")
    cut = limit is not None and limit < len(opened.examples)
    # a file of which `count` rows were read may hold more, so it counts as limited; written problems have no end
    least = limit if cut else None if config.is_generated else config.count
    return _Questions(config.name, opened.examples[:limit] if cut else opened.examples, least, opened.record)


def _run(
    reasoner: LatentReasoner,
    questions: _Questions,
    domain: Domain,
    decoding: Decoding,
    batch_size: int,
    tell: Callable[[int], None],
) -> tuple[BenchmarkResult, list[Sample]]:
    """One pass over one benchmark."""
    examples = list(questions.examples)
    device = reasoner.model.backbone.device
    forget_peak(device)
    start = time.perf_counter()
    answers = reasoner.ask(
        [e.question for e in examples], return_latents=True, decoding=decoding, batch_size=batch_size, on_batch=tell
    )
    seconds = time.perf_counter() - start
    scores = [score(a.text, e.answer, domain) for a, e in zip(answers, examples, strict=True)]
    asked_for = latents_asked_for(reasoner.model, examples)
    result = BenchmarkResult.of(
        questions.name,
        answers,
        scores,
        seconds,
        limit=questions.limit,
        seed=decoding.seed,
        decoding=describe(decoding),
        peak_gb=peak_memory_gb(device),
        halted_right=halted_right(answers, asked_for),
    )
    samples = [
        sample(questions.name, decoding.seed, i, e, a, s) | {"latents_asked_for": asked}
        for i, (e, a, s, asked) in enumerate(zip(examples, answers, scores, asked_for, strict=True))
    ]
    return result, samples


def _alone(reasoner: LatentReasoner, questions: _Questions, decoding: Decoding, count: int) -> float | None:
    """Milliseconds a question asked by itself takes, on average; one more goes before them to warm up."""
    first = [e.question for e in questions.examples[:count]]
    if not first:
        return None
    reasoner.ask(first[0], decoding=decoding)
    start = time.perf_counter()
    for question in first:
        reasoner.ask(question, decoding=decoding)
    return 1000 * (time.perf_counter() - start) / len(first)


def describe(decoding: Decoding) -> str:
    """`greedy`, or `T=0.6 top-p=0.95`."""
    return f"T={decoding.temperature:g} top-p={decoding.top_p:g}" if decoding.temperature > 0 else "greedy"


def soft(model: Model) -> bool:
    """Whether the model's method thinks in soft tokens, rather than in text or not at all."""
    thinker = model.method.thinker(model.backbone)
    return thinker.thinks and not isinstance(thinker, TextThinker)


def latents_asked_for(model: Model, examples: Sequence[Example]) -> list[int | None]:
    """Soft tokens each marked chain asks for: its spans. None without a chain, or where the method has no soft tokens."""
    if not soft(model):
        return [None] * len(examples)
    spans = plugins.make("spans", model.card.spans.name, model.card.spans.settings)
    return [sum(len(spans.cut(step, model.domain)) for step in e.steps) if e.steps else None for e in examples]


def halted_right(answers: Sequence[Answer], asked_for: Sequence[int | None]) -> float | None:
    """Share of thoughts exactly as long as their chain asks for; None where no chain is known."""
    right = [a.latent_count == n for a, n in zip(answers, asked_for, strict=True) if n is not None]
    return sum(right) / len(right) if right else None


def sample(name: str, seed: int, index: int, example: Example, answer: Answer, graded: Score) -> Sample:
    """One row of samples.jsonl.gz: the question, what was thought and said, what was found, whether it is right."""
    latents = [
        asdict(latent) | {"probs": [round(p, 4) for p in latent.probs], "entropy": round(latent.entropy, 4)}
        for latent in answer.latents
    ]
    return {
        "benchmark": name,
        "seed": seed,
        "index": index,
        "source": example.source,
        "question": example.question,
        "marked": example.answer,
        "found": graded.found,
        "correct": graded.correct,
        **asdict(replace(answer, latents=())),
        "latents": latents,
    }


def counted(name: str, total: int, on_progress: Progress | None) -> Callable[[int], None]:
    """A function of questions just answered that tells `on_progress` how many are."""
    done = 0

    def tell(count: int) -> None:
        nonlocal done
        done += count
        if on_progress:
            on_progress(name, done, total)

    return tell


class Comparison(NamedTuple):
    """Two models on the same questions.

    Attributes:
        n: Questions.
        difference: First minus second, in points of accuracy, with its bootstrap interval over questions.
        p: McNemar's exact p-value; None when answers were sampled more than once.
    """

    n: int
    difference: Estimate
    p: float | None


def compare(first: Sequence[Mapping[str, Any]], second: Sequence[Mapping[str, Any]]) -> dict[str, Comparison]:
    """Samples of two models → benchmark → their difference, question by question; several seeds are averaged first.

    Raises:
        UserError: They share no benchmark, or a shared one was not asked the same questions of both.
    """
    ours, theirs = _by_benchmark(first), _by_benchmark(second)
    shared = [name for name in ours if name in theirs]
    if not shared:
        raise UserError(f"nothing to compare: one model has {', '.join(ours)}, the other {', '.join(theirs)}.")
    out = {}
    for name in shared:
        if ours[name].keys() != theirs[name].keys():
            raise UserError(f"{name}: the two models were asked different questions. Run both without a limit.")
        a, b = list(ours[name].values()), [theirs[name][key] for key in ours[name]]
        once = all(len(marks) == 1 for marks in (*a, *b))
        p = mcnemar([m[0] for m in a], [m[0] for m in b]) if once else None
        points = [[100 * sum(marks) / len(marks) for marks in side] for side in (a, b)]
        out[name] = Comparison(len(a), paired_difference(*points), p)
    return out


def _by_benchmark(samples: Sequence[Mapping[str, Any]]) -> dict[str, dict[tuple[int, str], list[bool]]]:
    """Benchmark → question, by its place and words → right or wrong, once a seed."""
    found: dict[str, dict[tuple[int, str], list[bool]]] = {}
    for row in samples:
        found.setdefault(row["benchmark"], {}).setdefault((row["index"], row["question"]), []).append(row["correct"])
    return found
