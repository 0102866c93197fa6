"""The scheduler: bounded queue, first come first served, cancellation, refills in flight, failures, halt thresholds per question."""

import pytest
from engine_helpers import finish, many_prompts, soft, submit

from ruplar.engine.fast import FastEngine
from ruplar.engine.options import EngineOptions
from ruplar.engine.reference import generate
from ruplar.engine.sampling import Decoding
from ruplar.engine.scheduler import Scheduler
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
