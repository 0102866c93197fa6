"""The scheduler: bounded queue, first come first served, cancellation, refills in flight, failures, halt thresholds per question."""

import threading
from dataclasses import replace

import pytest
from engine_helpers import finish, many_prompts, soft, submit

from ruplar.engine.fast import FastEngine
from ruplar.engine.options import EngineOptions
from ruplar.engine.reference import generate
from ruplar.engine.sampling import Decoding
from ruplar.engine.scheduler import EngineDead, Scheduler
from ruplar.engine.thinker import NoThinker, SoftThinker, TextThinker
from ruplar.errors import UserError

DECODING = Decoding(max_answer_tokens=6)


@pytest.fixture
def thinker(backbone):
    # always thinks up to the cap
    return SoftThinker(backbone.embedding, backbone.end_think_id, halt_threshold=0.99, cap=4)


def scheduler_of(backbone, thinker, slots, **limits):
    return Scheduler(FastEngine.of(backbone, thinker, DECODING, slots), **limits)


def answers(backbone, thinker, prompts):
    return [row.answer_ids for row in generate(backbone, thinker, prompts, DECODING)]


def test_cancelling_in_flight_frees_the_slot(backbone, thinker):
    scheduler, prompts = scheduler_of(backbone, thinker, 2), many_prompts(3)
    tickets = [submit(scheduler, p) for p in prompts]
    scheduler.turn()
    assert sorted(scheduler.in_flight) == [0, 1] and len(scheduler.queue) == 1
    [freed] = [slot for slot, ticket in scheduler.in_flight.items() if ticket is tickets[0]]
    assert tickets[0].cancel()
    scheduler.turn()
    assert scheduler.in_flight[freed] is tickets[2] and not scheduler.queue
    finish(scheduler)
    wanted = answers(backbone, thinker, prompts)
    assert [tickets[i].result().answer_ids for i in (1, 2)] == wanted[1:]
    assert not tickets[1].cancel(), "answered already"


def test_first_come_first_served(backbone, thinker):
    scheduler, prompts = scheduler_of(backbone, thinker, 1), many_prompts(4, seed=2)
    tickets, order = [submit(scheduler, p) for p in prompts], []
    while scheduler.queue or scheduler.in_flight:
        scheduler.turn()
        order += [i for i, t in enumerate(tickets) if t.done() and i not in order]
    assert order == [0, 1, 2, 3]


def test_equal_questions_of_different_clients_do_not_wait_for_each_other(backbone, thinker):
    prompts = many_prompts(9)
    wanted = answers(backbone, thinker, prompts)
    prompt, scheduler = prompts[max(range(9), key=lambda i: len(wanted[i]))], scheduler_of(backbone, thinker, 2)
    limits = [Decoding(max_answer_tokens=1), DECODING, DECODING, DECODING]
    tickets = [submit(scheduler, replace(prompt), decoding=decoding) for decoding in limits]
    while not tickets[0].done():
        scheduler.turn()
    scheduler.turn()
    assert tickets[2].started and not tickets[1].done() and not tickets[3].started
    finish(scheduler)


def test_a_question_that_does_not_fit_is_refused(backbone, thinker):
    engine = FastEngine.of(backbone, thinker, DECODING, 2, EngineOptions(columns=40))
    scheduler, prompts = Scheduler(engine), many_prompts(3)
    long = type(prompts[0])(ids=(7,) * 30, question_at=0)
    tickets = [submit(scheduler, p) for p in prompts]
    with pytest.raises(UserError, match="takes up to 42 positions"):  # 30, <think>, 4 latents, </think>, 6
        submit(scheduler, long)
    with pytest.raises(UserError, match="max_answer_tokens: at most 6"):
        submit(scheduler, prompts[0], decoding=Decoding(max_answer_tokens=7))
    finish(scheduler)
    assert [t.result().answer_ids for t in tickets] == answers(backbone, thinker, prompts)
    # run_all reallocates first
    assert scheduler.run_all([long])[0].answer_ids == answers(backbone, thinker, [long])[0]


@pytest.mark.parametrize("part", ["step", "harvest", "_prefill"])
def test_an_interrupted_call_leaves_the_engine_free(backbone, thinker, monkeypatch, part):
    scheduler, prompts, calls = scheduler_of(backbone, thinker, 2), many_prompts(5), []
    work = getattr(scheduler.engine, part)

    def interrupted(*given):
        calls.append(given)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return work(*given)

    monkeypatch.setattr(scheduler.engine, part, interrupted)
    with pytest.raises(KeyboardInterrupt):
        scheduler.run_all(prompts)
    wanted = answers(backbone, thinker, prompts[:3])
    for again in (Scheduler(scheduler.engine), scheduler):
        assert [row.answer_ids for row in again.run_all(prompts[:3])] == wanted


def test_a_failed_prefill_fails_every_question_taken_from_the_queue(backbone, thinker, monkeypatch):
    scheduler = scheduler_of(backbone, thinker, 3)
    monkeypatch.setattr(FastEngine, "prefill_tokens", 1)  # a prefill per question, of which the first fails
    monkeypatch.setattr(scheduler.engine, "_prefill", lambda *_: 1 / 0)
    tickets = [submit(scheduler, p) for p in many_prompts(3)]
    scheduler.start()
    for ticket in tickets:
        with pytest.raises(ZeroDivisionError):
            ticket.result(20)
    scheduler.stop(20)


def test_a_stopped_scheduler_takes_questions_again_only_after_a_start(backbone, thinker):
    scheduler, [prompt] = scheduler_of(backbone, thinker, 1), many_prompts(1)
    for _ in range(2):
        scheduler.start()
        assert submit(scheduler, prompt).result(20).answer_ids == answers(backbone, thinker, [prompt])[0]
        scheduler.stop(20)
        with pytest.raises(UserError, match="has been stopped"):
            submit(scheduler, prompt)


def test_questions_of_an_engine_that_hangs_at_its_stop_fail(backbone, thinker, monkeypatch):
    scheduler, go, hangs = scheduler_of(backbone, thinker, 1), threading.Event(), threading.Event()
    prompts, step = many_prompts(2), scheduler.engine.step
    monkeypatch.setattr(scheduler.engine, "step", lambda: hangs.set() or go.wait(20) and step())
    scheduler.start()
    thread, tickets = scheduler._thread, [submit(scheduler, p) for p in prompts]
    assert hangs.wait(20)
    scheduler.stop(0.1)
    with pytest.raises(EngineDead, match="hung for 0.1 s"):
        tickets[0].result(20)
    assert tickets[1].future.cancelled() and not scheduler.alive
    go.set()
    thread.join(20)
    assert not thread.is_alive(), "it ends by itself, with its question given up"
    for again in (scheduler.start, lambda: submit(scheduler, prompts[0])):
        with pytest.raises(EngineDead, match="hung"):
            again()


def test_a_halt_threshold_applies_to_its_question_only(backbone):
    thinker, prompts = soft(backbone, cap=5), many_prompts(24)
    scheduler = Scheduler(FastEngine.of(backbone, thinker, DECODING, 5))
    own = [None, 1e-6, 1 - 1e-6]
    asked = [Decoding(max_answer_tokens=6, halt_threshold=own[i % 3]) for i in range(len(prompts))]
    tickets = [submit(scheduler, p, decoding=d) for p, d in zip(prompts, asked, strict=True)]
    finish(scheduler)
    for prompt, decoding, ticket in zip(prompts, asked, tickets, strict=True):
        [wanted] = generate(backbone, thinker, [prompt], decoding)
        found = ticket.result()
        assert (found.answer_ids, found.latent_count) == (wanted.answer_ids, wanted.latent_count)
        if decoding.halt_threshold is not None:  # below every P(halt), and above every one
            assert found.latent_count == (0 if decoding.halt_threshold < 0.5 else 5)


def test_a_halt_threshold_without_effect_is_refused(backbone):
    decoding, [prompt] = Decoding(halt_threshold=0.3), many_prompts(1)
    for thinker in (NoThinker(), soft(backbone, halt="argmax"), TextThinker(backbone.embedding, 3)):
        with pytest.raises(UserError, match="does not halt by a threshold"):
            generate(backbone, thinker, [prompt], decoding)
        with pytest.raises(UserError, match="does not halt by a threshold"):
            submit(Scheduler(FastEngine.of(backbone, thinker)), prompt, decoding=decoding)
    for value in (0, 1, -0.1):
        with pytest.raises(UserError, match="halt_threshold"):
            Decoding(halt_threshold=value)
