import itertools
import json

import pytest

from ruplar import plugins
from ruplar.engine.sampling import Decoding
from ruplar.errors import UserError
from ruplar.evaluate.benchmark import evaluate
from ruplar.evaluate.record import BenchmarkResult, read_samples, write_samples
from ruplar.types import Answer

SHORT = Decoding(max_answer_tokens=3)


@pytest.fixture
def said(reasoner, questions) -> list[Answer]:
    """What the model answers to each question when it is asked alone."""
    return [reasoner.ask(q, decoding=SHORT, return_latents=True)[0] for q in questions]


@pytest.fixture
def toy(said, questions, write_questions):
    """A benchmark of seven on which the model is right on all but the second and the fourth question."""
    answers = [answer.text for answer in said]
    answers[1] = answers[3] = "-1"
    return write_questions([{"question": q, "answer": a} for q, a in zip(questions, answers, strict=True)])


def test_a_benchmark_is_graded_question_by_question_in_its_own_order(reasoner, toy, said, questions):
    found = evaluate(reasoner, [str(toy)], decoding=SHORT, batch_size=2)
    [result] = found.results
    assert all(a.text.isdigit() for a in said), "the toy model should answer in digits"
    assert (result.name, result.n, result.correct, result.unreadable, result.limit) == (str(toy), 7, 5, 0, None)
    # Wilson for 5 of 7: 35.9 to 91.8 %
    assert (result.accuracy, result.low, result.high) == pytest.approx((500 / 7, 35.9, 91.8), abs=0.05)
    assert result.latents == pytest.approx(sum(a.latent_count for a in said) / 7)
    assert result.forwards == pytest.approx(sum(a.forwards for a in said) / 7)
    assert result.halted == pytest.approx(sum(a.halted for a in said) / 7)
    assert result.acc_per_latent == pytest.approx(result.accuracy / result.latents)
    assert result.ms_per_question > 0 and result.peak_gb > 0 and result.ms_batch1 is None
    assert [row["question"] for row in found.samples] == questions
    assert [row["correct"] for row in found.samples] == [True, False, True, False, True, True, True]


def test_a_sample_tells_what_was_thought_and_said(reasoner, toy, said, tmp_path):
    rows = evaluate(reasoner, [str(toy)], decoding=SHORT).samples
    first = rows[0]
    assert (first["benchmark"], first["index"], first["source"]) == (str(toy), 0, "toy.jsonl:1")
    assert (first["marked"], first["found"], first["text"]) == (said[0].text,) * 3
    assert first["latent_count"] == len(first["latents"]) == said[0].latent_count
    assert [z["tokens"] for z in first["latents"]] == [z.tokens for z in said[0].latents]
    assert first["latents"][0]["probs"] == pytest.approx(said[0].latents[0].probs, abs=1e-4)
    assert read_samples(write_samples(rows, tmp_path / "run").parent) == json.loads(json.dumps(rows))


def test_an_answer_that_cannot_be_read_is_counted_and_wrong(reasoner, questions, write_questions):
    file = write_questions([{"question": q, "answer": "7"} for q in questions])
    tokenizer = reasoner.model.backbone.tokenizer
    letters, digits = (tokenizer.convert_tokens_to_ids(list(x)) for x in ("abcdefghij", "0123456789"))
    head = reasoner.model.backbone.head.weight.data
    head[letters], head[digits] = head[digits].clone(), 0.0  # the same model, saying letters
    [result] = evaluate(reasoner, [str(file)], decoding=SHORT).results
    assert (result.correct, result.unreadable) == (0, 7)


def test_halting_is_right_where_the_thought_is_as_long_as_the_chain(reasoner, said, questions, write_questions):
    steps = [max(a.latent_count, 1) for a in said]
    steps[0] += 1  # one more than the model takes
    rows = [{"question": q, "answer": "7", "cot": "<<1+1=2>> " * n} for q, n in zip(questions, steps, strict=True)]
    rows[2].pop("cot")  # no chain, no say
    found = evaluate(reasoner, [str(write_questions(rows))], decoding=SHORT)
    right = [a.latent_count == n for i, (a, n) in enumerate(zip(said, steps, strict=True)) if i != 2]
    assert found.results[0].halted_right == pytest.approx(sum(right) / 6) and not right[0]
    assert [row["latents_asked_for"] for row in found.samples] == [*steps[:2], None, *steps[3:]]


def test_a_limit_asks_the_first_questions_and_is_noted_only_where_it_cuts(reasoner, toy):
    [cut] = evaluate(reasoner, [str(toy)], limit=2, decoding=SHORT).results
    assert (cut.n, cut.correct, cut.limit) == (2, 1, 2)
    [whole] = evaluate(reasoner, [str(toy)], limit=7, decoding=SHORT).results
    assert (whole.n, whole.limit) == (7, None)
    with pytest.raises(UserError, match="limit: must be at least 1, got 0"):
        evaluate(reasoner, [str(toy)], limit=0)


def test_results_come_in_the_order_asked_for_and_progress_is_told(reasoner, toy, write_questions):
    other = write_questions([{"question": "1+1?", "answer": "2"}], "other.jsonl")
    told = []
    found = evaluate(
        reasoner, [str(other), str(toy)], decoding=SHORT, batch_size=4, on_progress=lambda *news: told.append(news)
    )
    assert [r.name for r in found.results] == [str(other), str(toy)]
    # questions finish in any order, several at a time; the count only grows, and reaches the end
    assert told[0] == (str(other), 1, 1) and told[-1] == (str(toy), 7, 7)
    assert [done for _, done, _ in told[1:]] == sorted({done for _, done, _ in told[1:]})
    assert [s["examples"] for s in found.sources] == [1, 7] and found.sources[1]["repeats_kept"] == 1


def test_seeds_matter_only_when_answers_are_sampled(reasoner, toy):
    assert len(evaluate(reasoner, [str(toy)], seeds=(0, 1, 2), decoding=SHORT).results) == 1
    hot = Decoding(temperature=2.0, top_p=0.95, max_answer_tokens=3)
    found = evaluate(reasoner, [str(toy)], seeds=(4, 5), decoding=hot)
    assert [(r.seed, r.decoding) for r in found.results] == [(s, "T=2 top-p=0.95 max-answer-tokens=3") for s in (4, 5)]
    texts = [[row["text"] for row in found.samples if row["seed"] == seed] for seed in (4, 5)]
    assert texts[0] != texts[1] and len(texts[0]) == 7
    again = evaluate(reasoner, [str(toy)], seeds=(5,), decoding=hot, batch_size=3)
    assert [row["text"] for row in again.samples] == texts[1]
    for wrong, said in (((), "is empty"), ((0, 1, 0), r"\[0, 1, 0\] has duplicates")):
        with pytest.raises(UserError, match=said):
            evaluate(reasoner, [str(toy)], seeds=wrong)


def test_lenient_grading_is_labelled(reasoner, said, questions, write_questions):
    file = write_questions([{"question": q, "answer": a.text + "00"} for q, a in zip(questions, said, strict=True)])
    found = evaluate(reasoner, [str(file)], decoding=SHORT, lenient=True)
    [kind] = found.results
    [strict] = evaluate(reasoner, [str(file)], decoding=SHORT).results
    assert (strict.correct, strict.lenient) == (0, False)
    assert (kind.correct, kind.lenient) == (7, True)
    assert all(row["lenient"] and row["correct"] for row in found.samples)


def test_text_methods_and_no_thought_are_counted_in_their_own_coin(make_reasoner, toy, questions):
    asked = make_reasoner("no_cot")
    [text] = evaluate(make_reasoner("cot", max_thought=4), [str(toy)], decoding=SHORT).results
    [none] = evaluate(asked, [str(toy)], decoding=SHORT).results
    assert text.latents == 4 and text.halted_right is None
    assert (none.latents, none.acc_per_latent) == (0, None) and none.forwards == none.answer_tokens
    assert none.prompt_tokens == sum(len(asked.model.prompt(q).ids) for q in questions) / len(questions)


def test_only_the_engine_is_timed_and_its_warm_up_apart(reasoner, toy, monkeypatch):
    """Building the engine takes 1,000 s, tokenizing or decoding one text 100 s, one call of the engine first 1 s."""
    now = [0.0]

    def costs(owner, name, *seconds):
        real, left = getattr(owner, name), itertools.cycle(seconds)

        def slow(*given, **options):
            now[0] += next(left)
            return real(*given, **options)

        monkeypatch.setattr(owner, name, slow)

    costs(reasoner, "warm_up", 1000)
    costs(reasoner, "generate", *[1] * 7, 0.125, 0.25, 0.75, 0, 0, 0)
    costs(reasoner, "answers_of", 100)
    costs(reasoner.model, "prompt", 100)
    monkeypatch.setattr("ruplar.evaluate.benchmark.time.perf_counter", lambda: now[0])
    [result] = evaluate(reasoner, [str(toy)], limit=2, decoding=SHORT, latency_questions=2).results
    assert (result.ms_per_question, result.ms_batch1) == (500.0, 1000.0)
    assert result.warm_up_s == 1001.0  # with a batch answered before
    [result] = evaluate(reasoner, [str(toy)], limit=2, decoding=SHORT).results
    assert result.warm_up_s == 1000.0, "nobody asked for clocks, so nothing is asked twice"
    [result] = evaluate(reasoner, [str(toy)], limit=2, decoding=SHORT, latency_questions=2).results
    assert result.ms_per_question == 125.0, "the median of three passes, which take a second together"


def test_the_result_says_what_was_not_asked_and_what_was_asked_although_it_is_wrong(reasoner, data):
    reasoner.model.domain = plugins.make("domains", "dates")
    sets = ["date-understanding", "date-understanding-by-scenario"]
    whole, divided = evaluate(reasoner, sets, decoding=SHORT, data_dir=data).results
    assert (whole.n, whole.wrong_kept, whole.left_out) == (5, 1, {})  # the paper's test file as it is
    assert (divided.n, divided.wrong_kept, divided.left_out) == (3, 0, {"wrong chain": 3})  # Thanksgiving of 1969
    assert BenchmarkResult.model_validate(json.loads(divided.model_dump_json())) == divided


@pytest.mark.parametrize("method", ["coconut", "codi"])
def test_a_fixed_number_of_latents_is_not_marked_against_the_steps_of_a_chain(make_reasoner, write_questions, method):
    file = write_questions([{"question": "3+4?", "cot": "<<3+4=7>>", "answer": "7"}])
    [result] = evaluate(make_reasoner(method), [str(file)], decoding=SHORT).results
    assert result.latents == 6 and result.halted_right is None
