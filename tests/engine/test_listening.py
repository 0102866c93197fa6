"""Listeners get every latent and token in order; halt thresholds per question; a dead engine thread fails all waiting."""

import pytest
from engine_helpers import finish, many_prompts, soft, submit

from ruplar.engine.fast import FastEngine
from ruplar.engine.reference import generate
from ruplar.engine.sampling import Decoding
from ruplar.engine.scheduler import Scheduler
from ruplar.engine.thinker import NoThinker, TextThinker
from ruplar.errors import UserError

DECODING = Decoding(max_answer_tokens=6)


@pytest.fixture
def backbone(make_backbone):
    return make_backbone("llama")


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
