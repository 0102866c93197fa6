"""A model and benchmarks → results with confidence intervals, and one sample per question.

    source –open→ questions –reasoner→ answers –score→ BenchmarkResult + samples

Every question of a benchmark counts, including duplicates. A row that cannot be read stops the run; an answer that cannot be parsed
is wrong and counted.
"""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any, Literal

from ruplar import plugins
from ruplar.domains.base import Domain, grade
from ruplar.engine.sampling import Decoding
from ruplar.engine.thinker import HiddenThinker, TextThinker
from ruplar.errors import UserError
from ruplar.evaluate.question_sets import Benchmark, Questions, open_questions
from ruplar.evaluate.record import GREEDY, BenchmarkResult, commit_of
from ruplar.evaluate.samples import Sample, sample
from ruplar.evaluate.score import Vote, majority, passes
from ruplar.evaluate.score import lenient as lenient_domain
from ruplar.fingerprints import count_seen
from ruplar.model.memory import forget_peak
from ruplar.model.store import Model
from ruplar.reasoner import LatentReasoner, TooLong, check_samples
from ruplar.spans.base import attached, cut_chain
from ruplar.types import Answer, Example

log = logging.getLogger(__name__)

Progress = Callable[[str, int, int], None]
"""Called after each batch with the benchmark's name, the number of answers so far and in total."""


@dataclass
class Evaluation:
    """Results per benchmark and seed of sampled answers, samples in the same order, and what run.json stores of each source."""

    results: list[BenchmarkResult] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    sources: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True)
class _Protocol:
    decoding: Decoding
    samples: int
    batch_size: int
    warm: Literal["", "batch", "all"]
    """What to answer once before timing. Kernels compile for each size of a refill, so `all` before a comparison on a GPU."""
    least: float  # seconds to time; a shorter pass is repeated, and the median counts


def evaluate(
    model: LatentReasoner | str | Path,
    on: str | Sequence[Benchmark],
    *,
    limit: int | None = None,
    seeds: Sequence[int] = (0,),
    decoding: Decoding | None = None,
    samples: int = 1,
    batch_size: int = 64,
    lenient: bool = False,
    latency_questions: int = 0,
    data_dir: str | Path | None = None,
    skip_bad: bool = False,
    on_progress: Progress | None = None,
) -> Evaluation:
    """Evaluate a model on benchmarks and grade its answers.

    Args:
        model: A `LatentReasoner`, or a model folder or name to load.
        on: Names, files, Hub datasets or generated problems; all are loaded before the first question. `limit`, `data_dir`
            and `skip_bad` do not apply to what `open_questions` has loaded.
        limit: Use only the first questions of each; such a result enters no table.
        seeds: Random seeds of sampled answers, one result each. Greedy decoding runs once.
        decoding: How answers are decoded, and the noise of the latents; None: greedy, no noise.
        samples: Answers per question; their majority is graded, and pass@k is recorded.
        batch_size: Answers per batch.
        lenient: Grade by the published code's rule; the result says so.
        latency_questions: Also time this many of the first questions at batch size 1, for `ms_batch1`; above 0, and always on
            a GPU, a batch is answered first. Above 0, short passes are repeated for a second; the median counts.
        data_dir: Folder with the files of known benchmarks.
        skip_bad: Skip and count rows that cannot be read instead of stopping; such a result enters no table.
        on_progress: See `Progress`.
    """
    if not seeds or len(set(seeds)) < len(seeds):
        wrong = "has duplicates" if seeds else "is empty"
        raise UserError(f"seeds: {list(seeds)} {wrong}. Pass at least one, each once.")
    decoding = decoding or Decoding()
    check_samples(samples, decoding)
    reasoner = model if isinstance(model, LatentReasoner) else LatentReasoner.from_pretrained(model)
    own = reasoner.model.domain
    domain = lenient_domain(own) if lenient else own
    sets = open_questions([on] if isinstance(on, str) else on, own, limit=limit, data_dir=data_dir, skip_bad=skip_bad)
    found = Evaluation(sources=[questions.record for questions in sets])
    commit, dirty = commit_of()
    for questions in sets:
        for seed in seeds if decoding.temperature > 0 or decoding.noisy else [0]:
            on_gpu = reasoner.model.backbone.device.type == "cuda"
            warm: Any = "all" if on_gpu and latency_questions else "batch" if on_gpu or latency_questions else ""
            how = _Protocol(replace(decoding, seed=seed), samples, batch_size, warm, float(latency_questions > 0))
            report = counted(questions.name, samples * len(questions.examples), on_progress)
            result, rows = _run(reasoner, questions, domain, how, report)
            alone = _latency(reasoner, questions, how.decoding, latency_questions)
            about = {"lenient": lenient, "ms_batch1": alone, "commit": commit, "dirty": bool(dirty)}
            found.results.append(result.model_copy(update=about))
            found.samples += [row | {"lenient": True} for row in rows] if lenient else rows
    return found


def _run(
    reasoner: LatentReasoner, questions: Questions, domain: Domain, how: _Protocol, report: Callable[[int], None]
) -> tuple[BenchmarkResult, list[Sample]]:
    examples, model = list(questions.examples), reasoner.model
    forget_peak(model.backbone.device)
    try:
        drawn, seconds, warm_up = _drawn(reasoner, [e.question for e in examples], how, report)
    except TooLong as error:
        raise UserError(f"{examples[error.place].source}: {error}") from None
    answers = [some[0] for some in drawn]
    votes: list[Vote] = []
    if how.samples > 1:
        votes = [majority(some, model.domain) for some in drawn]
        answers = [vote.answer for vote in votes]
    scores = [grade(a.text, e.answer, domain) for a, e in zip(answers, examples, strict=True)]
    expected = expected_latents(model, examples)
    about: dict[str, Any] = {"limit": questions.limit, "seed": how.decoding.seed, "warm_up_s": warm_up}
    about |= {name: questions.record[name] for name in ("left_out", "wrong_kept") if name in questions.record}
    about |= {"decoding": describe(how.decoding, how.samples), "peak_gb": reasoner.peak_gb}
    about["workers"] = reasoner.workers
    about["prompt_tokens"] = sum(len(model.prompt(e.question).ids) for e in examples) / len(examples)
    seen = about["trained_on"] = count_seen((e.question for e in examples), model.trained_on)
    if seen:
        log.warning("%s: the model was trained on %d of these %d questions.", questions.name, seen, len(examples))
    about["halted_right"] = halted_right(
        [a for some in drawn for a in some], [count for count in expected for _ in range(how.samples)]
    )
    rows = [
        sample(questions.name, how.decoding.seed, i, e, a, s)
        | {"decoding": about["decoding"], "latents_asked_for": count}
        for i, (e, a, s, count) in enumerate(zip(examples, answers, scores, expected, strict=True))
    ]
    if votes:
        graded = [[grade(a.text, e.answer, domain) for a in some] for some, e in zip(drawn, examples, strict=True)]
        right = [sum(s.correct for s in some) for some in graded]
        about |= {"samples": how.samples, "pass_at": passes(right, how.samples)}
        for row, vote, some, scored in zip(rows, votes, drawn, graded, strict=True):
            row["votes"] = [list(one) for one in vote.counts]
            row["answers"] = [
                {"text": a.text, "found": s.found, "correct": s.correct, "latent_count": a.latent_count}
                for a, s in zip(some, scored, strict=True)
            ]
    return BenchmarkResult.of(questions.name, answers, scores, seconds, **about), rows


def _drawn(
    reasoner: LatentReasoner, questions: Sequence[str], how: _Protocol, report: Callable[[int], None]
) -> tuple[list[list[Answer]], float, float]:
    """Generate all answers to each question → also the seconds of answering, and before that of warm-up and graph captures.

    Only the engine is timed: prompts are tokenized before, and answers and latents become text after. Two exceptions: the
    seconds of a cluster include what its workers need to start, and the logits of latents with noise are too large to keep.
    Latents are returned only for single answers.
    """
    options: dict[str, Any] = {"decoding": how.decoding, "batch_size": how.batch_size, "samples": how.samples}
    returned = how.samples == 1
    keep = reasoner.keep(returned, how.decoding)
    began = time.perf_counter()
    if not reasoner.remote:
        prompts = [reasoner.model.prompt(text).ids for text in questions]
        began = time.perf_counter()
        reasoner.warm_up(return_latents=returned, questions=len(prompts), **options)
        first = len(prompts) if how.warm == "all" else max(1, how.batch_size // how.samples)
        if how.warm:
            reasoner.generate(prompts[:first], keep=keep, **options)
    start, captured = time.perf_counter(), reasoner.capture_seconds
    if reasoner.remote or keep == "all":
        drawn = reasoner.sample(questions, return_latents=returned, on_batch=report, **options)
        end = time.perf_counter()
    else:
        rows = reasoner.generate(prompts, keep=keep, on_batch=report, **options)
        end = time.perf_counter()
        answers = reasoner.answers_of(rows)
        drawn = [answers[at : at + how.samples] for at in range(0, len(answers), how.samples)]
    captured = reasoner.capture_seconds - captured
    took = [end - start - captured]
    while not reasoner.remote and keep != "all" and sum(took) < how.least:
        again = time.perf_counter()
        reasoner.generate(prompts, keep=keep, **options)
        took.append(time.perf_counter() - again)
    return drawn, median(took), start - began + captured


def _latency(reasoner: LatentReasoner, questions: Questions, decoding: Decoding, count: int) -> float | None:
    """Measure the mean milliseconds per question at batch size 1, without tokenizing and decoding.

    On a GPU the second of two passes is timed: CUDA graphs are captured when a length occurs for the first time.
    """
    prompts = [reasoner.model.prompt(e.question).ids for e in questions.examples[:count]]
    if not prompts:
        return None
    on_gpu = reasoner.model.backbone.device.type == "cuda"
    for some in (prompts if on_gpu else prompts[:1], prompts):
        start = time.perf_counter()
        for prompt in some:
            reasoner.generate([prompt], decoding=decoding, batch_size=1)
        seconds = time.perf_counter() - start
    return 1000 * seconds / len(prompts)


def describe(decoding: Decoding, samples: int = 1) -> str:
    """Describe a decoding: `greedy`, `T=0.6 top-p=0.95`, `vote of 16 noise=1`, or `greedy max-answer-tokens=8`."""
    found = [f"vote of {samples}"] if samples > 1 else []
    if decoding.noisy:
        found.append(f"noise={decoding.noise:g}")
    if decoding.temperature > 0:
        found.append(f"T={decoding.temperature:g} top-p={decoding.top_p:g}")
    cap = decoding.max_answer_tokens
    limited = [] if cap == Decoding().max_answer_tokens else [f"max-answer-tokens={cap}"]
    return " ".join([*(found or [GREEDY]), *limited])


def soft(model: Model) -> bool:
    """Whether the model's method thinks in latents, rather than in text or not at all."""
    thinker = model.method.thinker(model.backbone)
    return thinker.thinks and not isinstance(thinker, TextThinker)


def expected_latents(model: Model, examples: Sequence[Example]) -> list[int | None]:
    """Count the spans of each reference chain: the expected number of latents.

    None without a chain, and for methods whose number of latents does not follow the spans: text, none, a fixed number.
    """
    fixed = isinstance(model.method.thinker(model.backbone), HiddenThinker)
    if not soft(model) or fixed or not model.method.follows_spans:
        return [None] * len(examples)
    rule = plugins.make("spans", model.metadata.spans.name, model.metadata.spans.settings)
    spans = attached(rule, model.backbone.prompt.plain, model.backbone.tokenizer)
    return [sum(map(len, cut_chain(spans, e.steps, model.domain))) if e.steps else None for e in examples]


def halted_right(answers: Sequence[Answer], expected: Sequence[int | None]) -> float | None:
    """Share of answers with as many latents as their chain has spans; None where no chain is known."""
    right = [a.latent_count == n for a, n in zip(answers, expected, strict=True) if n is not None]
    return sum(right) / len(right) if right else None


def counted(name: str, total: int, on_progress: Progress | None) -> Callable[[int], None]:
    """Make a callback that adds up answered questions and reports them to `on_progress`."""
    done = 0

    def report(count: int) -> None:
        nonlocal done
        done += count
        if on_progress:
            on_progress(name, done, total)

    return report
