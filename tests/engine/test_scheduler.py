"""The scheduler: bounded queue, first come first served, cancellation, refills in flight, failures."""

from __future__ import annotations

from concurrent.futures import CancelledError

import pytest
from engine_helpers import finish, many_prompts, submit

from ruplar.engine.fast import FastEngine
from ruplar.engine.options import EngineOptions
from ruplar.engine.reference import generate
from ruplar.engine.sampling import Decoding
from ruplar.engine.scheduler import QueueFull, Scheduler
from ruplar.engine.thinker import SoftThinker
from ruplar.errors import UserError

DECODING = Decoding(max_answer_tokens=6)


@pytest.fixture
def backbone(make_backbone):
    return make_backbone("llama")


@pytest.fixture
def thinker(backbone):
    return SoftThinker(
        backbone.embedding, backbone.end_think_id, halt_threshold=0.99, cap=4
    )  # always thinks up to the cap


def scheduler_of(backbone, thinker, slots, **limits):
    return Scheduler(FastEngine.of(backbone, thinker, DECODING, slots), **limits)


def answers(backbone, thinker, prompts):
    return [row.answer_ids for row in generate(backbone, thinker, prompts, DECODING)]


def test_the_queue_is_bounded(backbone, thinker):
    scheduler, prompts = scheduler_of(backbone, thinker, 1, queue_limit=2), many_prompts(3)
    tickets = [submit(scheduler, p) for p in prompts[:2]]
    with pytest.raises(QueueFull, match="2 questions are already waiting"):
        submit(scheduler, prompts[2])
    scheduler.turn()  # one in flight, one waiting
    tickets.append(submit(scheduler, prompts[2]))
    finish(scheduler)
    assert [t.result().answer_ids for t in tickets] == answers(backbone, thinker, prompts)


def test_cancelling_a_waiting_question_makes_room(backbone, thinker):
    scheduler, prompts = scheduler_of(backbone, thinker, 1, queue_limit=3), many_prompts(4)
    tickets = [submit(scheduler, p) for p in prompts[:3]]
    assert tickets[1].cancel() and tickets[1].done()
    tickets.append(submit(scheduler, prompts[3]))
    finish(scheduler)
    with pytest.raises(CancelledError):
        tickets[1].result()
    wanted = answers(backbone, thinker, prompts)
    assert [tickets[i].result().answer_ids for i in (0, 2, 3)] == [wanted[i] for i in (0, 2, 3)]


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


def test_a_finished_slot_is_refilled_while_others_are_in_flight(backbone, thinker):
    found = zip(many_prompts(30), answers(backbone, thinker, many_prompts(30)), strict=True)
    scheduler, prompts = scheduler_of(backbone, thinker, 2), [p for p, ids in found if len(ids) > 2][:3]
    short = Decoding(max_answer_tokens=1)
    first = submit(scheduler, prompts[0], decoding=short)
    others = [submit(scheduler, p) for p in prompts[1:]]
    while not first.done():
        scheduler.turn()
    assert list(scheduler.in_flight.values()) == [others[0]], "the second is still in flight"
    scheduler.turn()
    assert set(scheduler.in_flight.values()) == set(others)
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
    assert (
        scheduler.run_all([long])[0].answer_ids == answers(backbone, thinker, [long])[0]
    )  # run_all reallocates first


def test_stopping_finishes_questions_in_flight_and_cancels_waiting_ones(backbone, thinker):
    scheduler = scheduler_of(backbone, thinker, 1)
    tickets = [submit(scheduler, p) for p in many_prompts(5)]
    scheduler.turn()
    scheduler.start()
    scheduler.stop()
    assert tickets[0].result().answer_ids
    assert tickets[4].future.cancelled() and all(t.done() for t in tickets)


def test_a_failure_reaches_only_questions_in_flight(backbone, thinker):
    scheduler, prompts = scheduler_of(backbone, thinker, 1), many_prompts(2)
    step, failed = scheduler.engine.step, []

    def breaks_once():
        if not failed:
            failed.append(True)
            raise RuntimeError("out of memory")
        return step()

    scheduler.engine.step = breaks_once
    tickets = [submit(scheduler, p) for p in prompts]
    scheduler.start()
    with pytest.raises(RuntimeError, match="out of memory"):
        tickets[0].result(timeout=30)
    assert tickets[1].result(timeout=30).answer_ids == answers(backbone, thinker, prompts)[1]
    scheduler.stop()
