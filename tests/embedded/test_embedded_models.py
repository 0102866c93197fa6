"""The models inside the package: small, the same through both engines, and their thoughts carry the answers."""

from __future__ import annotations

import pytest

from ruplar import embedded
from ruplar.chains.sources import SourceConfig, open_source
from ruplar.chains.word_problems import generate
from ruplar.chains.word_problems.make import part_of
from ruplar.evaluate.ablate import ablate
from ruplar.evaluate.score import score
from ruplar.plugins import make
from ruplar.reasoner import LatentReasoner

MODELS = ("cot", "no_cot", "ruplar")
FOLDER = embedded.TOKENIZER.parent


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def problems():
    """A hundred test problems, as `ruplar evaluate --on word-problems` asks them."""
    return list(open_source(SourceConfig(source="word-problems", count=100), make("domains", "arithmetic")).examples)


def accuracy(name, problems):
    reasoner = LatentReasoner.from_pretrained(f"embedded:{name}")
    answers = reasoner.ask([p.question for p in problems])
    domain = reasoner.model.domain
    return sum(score(a.text, p.answer, domain).correct for a, p in zip(answers, problems, strict=True)) / len(problems)


def test_they_are_small_enough_to_ship():
    files = [f for f in FOLDER.rglob("*") if f.is_file() and "__pycache__" not in f.parts]
    assert sum(f.stat().st_size for f in files) <= 16_000_000
    assert {f.suffix for f in files} <= {".json", ".safetensors", ".py", ".jinja"}


@pytest.mark.parametrize("name", MODELS)
def test_both_engines_say_the_same(name, problems):
    questions = [p.question for p in problems[:64]]
    fast, plain = (
        LatentReasoner.from_pretrained(f"embedded:{name}", engine=engine).ask(questions, return_latents=True)
        for engine in ("fast", "reference")
    )
    for a, b in zip(fast, plain, strict=True):
        assert (a.text, a.thought, a.latent_count, a.forwards) == (b.text, b.thought, b.latent_count, b.forwards)
        assert (a.answer_tokens, a.halted, a.ended) == (b.answer_tokens, b.halted, b.ended)
        assert [z.tokens[0] for z in a.latents] == [z.tokens[0] for z in b.latents]


def test_soft_tokens_carry_the_answer(problems):
    # coarse bounds: 100 problems move a true 90 % by 6 points
    found = {row.mode: row.result for row in ablate(LatentReasoner.from_pretrained("embedded:ruplar"), problems)}
    assert found["real"].accuracy >= 85
    assert found["random"].accuracy <= 30
    assert max(found[mode].accuracy for mode in ("none", "zero", "shuffled")) < found["real"].accuracy - 30
    assert found["real"].latents <= 6


def test_thinking_beats_answering_at_once(problems):
    assert accuracy("ruplar", problems) > accuracy("no_cot", problems) + 0.1


def test_no_training_problem_can_be_a_test_problem(problems):
    assert {part_of(p.question) for p in problems} == {"test"}
    for part in ("train", "valid"):
        assert {part_of(e.question) for e in generate(200, 5, split=part)} == {part}
    # the part depends on the question alone, so a training seed that writes a test problem leaves it out
    written = list(generate(300, 5))
    assert {part_of(e.question) for e in written} == {"train", "valid", "test"}


@pytest.mark.parametrize("name", MODELS)
def test_the_recipes_that_made_them_train_on_no_test_seed(name):
    from ruplar.chains.sources import TEST_SEED
    from ruplar.config import load_recipe

    config = load_recipe(f"embedded-{'backbone' if name == 'cot' else name}")
    assert all(source.seed != TEST_SEED and source.is_generated for source in (*config.data.train, config.data.valid))
