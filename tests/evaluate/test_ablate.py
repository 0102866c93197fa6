import math

import pytest
import torch

from ruplar.engine.sampling import Decoding
from ruplar.engine.thinker import NoThinker, ReplayThinker
from ruplar.errors import UserError
from ruplar.evaluate import ablate as module
from ruplar.evaluate.ablate import MODES, ablate, derangement
from ruplar.reasoner import LatentReasoner
from ruplar.types import Example

SHORT = Decoding(max_answer_tokens=3)
HIDDEN = ["coconut", "codi"]
"""Methods whose latents are hidden states."""


@pytest.fixture
def examples(reasoner, questions) -> list[Example]:
    """Six questions marked with what the model says after its own thought."""
    said = reasoner.ask(questions[:6], decoding=SHORT)
    return [Example(q, ("1+1=2",), a.text, f"toy:{i}") for i, (q, a) in enumerate(zip(questions, said, strict=False))]


def test_every_mode_answers_every_question_and_only_the_real_latents_are_all_right(reasoner, examples):
    told = []
    rows = ablate(reasoner, examples, decoding=SHORT, batch_size=4, on_progress=lambda *news: told.append(news))
    assert [row.mode for row in rows] == list(MODES) == [row.result.name for row in rows]
    by = {row.mode: row for row in rows}
    assert by["real"].result.correct == 6 and by["real"].difference is None
    for mode in MODES:
        assert (mode, 6, 6) in told and by[mode].result.n == 6
        if mode != "real":
            assert by[mode].difference.mean == pytest.approx(by[mode].result.accuracy - 100)
    assert min(by[m].result.correct for m in ("none", "random", "zero")) < 6, "the toy's latents should matter"


def test_an_ablation_repeats_under_its_seed_whatever_the_batch_size(reasoner, examples):
    def correct(**how):
        return [row.result.correct for row in ablate(reasoner, examples, decoding=SHORT, **how)]

    assert correct(seed=3) == correct(seed=3, batch_size=2)


def test_replacements_are_what_they_claim(make_reasoner):
    latents = [torch.tensor([[3.0, 4.0], [0.0, 2.0]]), torch.empty(0, 2), torch.tensor([[6.0, 8.0]])]
    chosen = module._replacements(make_reasoner("ruplar").model, latents, seed=0)
    assert isinstance(chosen["none"]([0]), NoThinker)
    random = chosen["random"]([0, 1, 2])
    assert isinstance(random, ReplayThinker)
    # lengths 5, 2 and 10 stay, directions do not
    assert [z.norm(dim=-1).tolist() for z in random.latents] == [pytest.approx([5, 2]), [], pytest.approx([10])]
    assert not torch.allclose(random.latents[0], latents[0], atol=0.1)
    assert torch.equal(chosen["random"]([2]).latents[0], random.latents[2])
    assert [z.tolist() for z in chosen["zero"]([0, 2]).latents] == [[[0, 0], [0, 0]], [[0, 0]]]
    other = derangement(3, 0)
    assert all(torch.equal(chosen["shuffled"]([i]).latents[0], latents[other[i]]) for i in range(3))
    assert chosen["argmax"]([0]).harden


def test_a_derangement_leaves_nothing_in_its_place():
    for n in (2, 3, 10, 101):
        found = derangement(n, seed=n)
        assert sorted(found) == list(range(n)) and all(i != j for i, j in enumerate(found))
    assert derangement(50, 0) == derangement(50, 0) != derangement(50, 1)


@pytest.mark.parametrize("method", ["cot", "no_cot"])
def test_a_method_without_soft_tokens_has_nothing_to_ablate(method, make_reasoner, examples):
    with pytest.raises(UserError, match=f"'{method}' has no latents to ablate"):
        ablate(make_reasoner(method), examples)


def test_one_question_cannot_be_shuffled(reasoner, examples):
    with pytest.raises(UserError, match="at least two questions, got 1"):
        ablate(reasoner, examples[:1])


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
