"""Methods whose latents are hidden states, through everything a user calls."""

from __future__ import annotations

import math

import pytest

from ruplar.engine.sampling import Decoding
from ruplar.evaluate.ablate import ablate
from ruplar.evaluate.benchmark import evaluate
from ruplar.reasoner import LatentReasoner
from ruplar.types import Example

SHORT = Decoding(max_answer_tokens=3)
HIDDEN = ["coconut", "codi"]


@pytest.mark.parametrize("method", HIDDEN)
def test_latents_are_shown_as_what_the_head_reads_in_them(make_reasoner, questions, method):
    reasoner = make_reasoner(method)
    answers = reasoner.ask(questions, return_latents=True, decoding=SHORT)
    for answer in answers:
        assert (answer.latent_count, len(answer.latents), answer.halted) == (6, 6, True)
        assert answer.forwards == 1 + 6 + 1 + answer.answer_tokens - 1
        for latent in answer.latents:
            assert len(latent.tokens) >= 5 and sum(latent.probs) <= 1 + 1e-5
            assert 0 < latent.entropy < math.log(300) and 0 <= latent.halt <= 1
    plain = LatentReasoner(reasoner.model, engine="reference")
    assert [a.text for a in plain.ask(questions, decoding=SHORT)] == [a.text for a in answers]


@pytest.mark.parametrize("method", HIDDEN)
def test_hidden_latents_are_ablated_by_every_mode_that_needs_no_mixture(make_reasoner, questions, method):
    reasoner = make_reasoner(method)
    said = reasoner.ask(questions[:6], decoding=SHORT)
    examples = [Example(q, ("1+1=2",), a.text) for q, a in zip(questions, said, strict=False)]
    by = {row.mode: row.result for row in ablate(reasoner, examples, decoding=SHORT)}
    assert list(by) == ["real", "none", "random", "shuffled", "zero"]
    assert by["real"].correct == 6 and by["none"].latents == 0 and by["random"].latents == 6


@pytest.mark.parametrize("method", HIDDEN)
def test_a_fixed_number_of_latents_is_not_marked_against_the_steps_of_a_chain(make_reasoner, write_questions, method):
    file = write_questions([{"question": "3+4?", "cot": "<<3+4=7>>", "answer": "7"}])
    [result] = evaluate(make_reasoner(method), [str(file)], decoding=SHORT).results
    assert result.latents == 6 and result.halted_right is None
