"""The models inside the package: small, the same through both engines, and their thoughts carry the answers."""

import pytest

from ruplar import embedded
from ruplar.data.sources import SourceConfig, open_source
from ruplar.evaluate.ablate import ablate
from ruplar.plugins import make
from ruplar.reasoner import LatentReasoner

MODELS = ("cot", "no_cot", "ruplar")
FOLDER = embedded.TOKENIZER.parent

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def problems():
    """A hundred test problems, as `ruplar evaluate --on word-problems` asks them."""
    return list(open_source(SourceConfig(source="word-problems", count=100), make("domains", "arithmetic")).examples)


def test_they_are_small_enough_to_ship():
    files = [f for f in FOLDER.rglob("*") if f.is_file() and "__pycache__" not in f.parts]
    assert sum(f.stat().st_size for f in files) <= 16_000_000
    assert {f.suffix for f in files} <= {".json", ".safetensors", ".py", ".jinja"}


def _most_held(reasoner, questions):
    """Bytes that the slots of its engine hold to make latents readable."""
    reasoner.ask(questions, return_latents=True, batch_size=64)
    return sum(held.numel() * held.element_size() for held in reasoner._fast[1].state.latents.values())


def test_readable_latents_take_memory_for_the_questions_asked_and_none_where_a_thought_is_text(problems):
    questions = [problem.question for problem in problems[:3]]
    reasoner = LatentReasoner.from_pretrained("embedded:ruplar", engine="fast")
    width, cap = reasoner.model.backbone.head.weight.shape[1], reasoner.model.method.config.max_latents
    # 3 questions: 4 slots and a spare one, not 64; hidden states of cap latents and a spare one; float32
    assert _most_held(reasoner, questions) == (4 + 1) * (cap + 1) * width * 4
    assert _most_held(LatentReasoner.from_pretrained("embedded:cot", engine="fast"), questions) == 0


@pytest.mark.slow
def test_an_engine_is_made_anew_only_where_its_slots_do_not_fit(problems):
    reasoner = LatentReasoner.from_pretrained("embedded:ruplar", engine="fast")
    engines = []
    for asked in (5, 3, 8, 9):  # 8 slots serve 5, 3 and 8 questions; 9 need more
        reasoner.ask([problem.question for problem in problems[:asked]], batch_size=64)
        engines.append(reasoner._fast[1])
    assert engines[0] is engines[1] is engines[2] is not engines[3]
    assert [engine.slots for engine in engines] == [8, 8, 8, 16]
    reasoner.ask([problem.question for problem in problems[:9]], batch_size=4)
    assert reasoner._fast[1].slots == 4


@pytest.mark.slow
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


@pytest.mark.slow
def test_soft_tokens_carry_the_answer(problems):
    # coarse bounds: 50 problems move a true 90 % by 8 points
    found = {row.mode: row.result for row in ablate(LatentReasoner.from_pretrained("embedded:ruplar"), problems[:50])}
    assert found["real"].accuracy >= 82
    assert found["random"].accuracy <= 30
    assert max(found[mode].accuracy for mode in ("none", "zero", "shuffled")) < found["real"].accuracy - 30
    assert found["real"].latents <= 6
