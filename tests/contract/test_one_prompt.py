"""One prompt: training, Python, evaluation and the server give a model the same prompt ids and get the same answers, for every method.

The ids are recorded where they enter the model: in training sequences and at the door of both engines. Each method's
`question` gets a suffix of its own here, so that a path that builds its prompt without the method fails for every method.
"""

import json
import sys
from pathlib import Path

import httpx
import pytest
import torch

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS / "methods"), str(TESTS / "serve")]
from overfitting import small_backbone, tools_of  # noqa: E402
from serve_toys import running  # noqa: E402

from ruplar import plugins  # noqa: E402
from ruplar.engine.fast import FastEngine  # noqa: E402
from ruplar.engine.reference import generate  # noqa: E402
from ruplar.engine.sampling import Decoding  # noqa: E402
from ruplar.evaluate.benchmark import evaluate  # noqa: E402
from ruplar.model.store import Model, ModelMetadata, PluginSpec, save_model  # noqa: E402
from ruplar.reasoner import LatentReasoner  # noqa: E402
from ruplar.types import Example, SampleContext  # noqa: E402

EXAMPLE = Example("Anna has 3 bags of 4 apples. She eats 2. How many are left?", ("3*4=12", "12-2=10"), "10")
SETTINGS = {
    "colar": {"speed": 2, "max_latents": 4},
    "cot": {"max_thought": 4},
    "icot": {"max_thought": 4},
    "regular": {"max_latents": 4},
}
QUESTIONS = [
    EXAMPLE.question,
    "How many are 6 boxes of 20 beads?",
    "3*4",
    "Ben has 12 pens and gives away 5. How many are left?",
]
SUFFIX = " Answer briefly."
SHORT = Decoding(max_answer_tokens=4)


@pytest.fixture(params=plugins.names("methods"))
def model(request, monkeypatch) -> Model:
    """A small random model of each method."""
    name = request.param
    cls = plugins.load("methods", name).Method
    question = cls.question
    monkeypatch.setattr(cls, "question", lambda self, text, context=None: question(self, text, context) + SUFFIX)
    settings = SETTINGS.get(name, {})
    backbone, method = small_backbone(), plugins.make("methods", name, settings)
    with torch.no_grad():
        for weight in backbone.plain_model.model.layers.parameters():
            weight.mul_(8)  # or every answer would repeat `</think>`
    method.attach(backbone)
    metadata = ModelMetadata(
        method=PluginSpec(name=name, settings=settings),
        backbone={"name": "embedded", "lora": None},
        prompt=backbone.prompt.config,
        domain=PluginSpec(name="arithmetic"),
    )
    return Model(backbone, method, plugins.make("domains", "arithmetic"), metadata)


@pytest.fixture
def prompted(monkeypatch) -> list[tuple[int, ...]]:
    """The prompt ids that reach either engine, in order."""
    ids: list[tuple[int, ...]] = []
    admit = FastEngine.admit

    def record_admitted(engine, slots, requests):
        ids.extend(tuple(request.prompt.ids) for request in requests)
        return admit(engine, slots, requests)

    def record_generated(backbone, thinker, prompts, *rest, **options):
        ids.extend(tuple(prompt.ids) for prompt in prompts)
        return generate(backbone, thinker, prompts, *rest, **options)

    monkeypatch.setattr(FastEngine, "admit", record_admitted)
    monkeypatch.setattr("ruplar.reasoner.generate", record_generated)
    return ids


def training_prompt(model: Model) -> tuple[int, ...]:
    """The ids before `<think>` in a training sequence; CoLaR's is one whose drawn speed is the speed at inference."""
    method, question = model.method, EXAMPLE.question
    contexts = (SampleContext(epoch, 0) for epoch in range(100))
    context = next(c for c in contexts if method.question(question, c) == method.question(question))
    ids = method.encode(EXAMPLE, tools_of(model.backbone), context).ids
    return tuple(ids[: ids.index(model.backbone.think_id)])


def test_all_paths_prompt_a_model_with_the_same_ids_and_get_the_same_answers(model, prompted, tmp_path):
    folder = save_model(tmp_path / "model", model)
    wanted = training_prompt(model)
    text = model.backbone.tokenizer.decode(wanted)
    assert EXAMPLE.question in text
    assert SUFFIX in text, "`encode` must use tools.prompt(self.question(example.question, context))"
    assert ("(Thinking speed: 2)" in text) == (model.metadata.method.name == "colar")

    for engine in ("fast", "reference"):
        LatentReasoner.from_pretrained(folder, engine=engine).ask([EXAMPLE.question], decoding=SHORT)
    file = tmp_path / "questions.jsonl"
    row = {"question": EXAMPLE.question, "steps": [f"<<{step}>>" for step in EXAMPLE.steps], "answer": EXAMPLE.answer}
    file.write_text(json.dumps(row) + "\n", encoding="utf-8")
    evaluate(LatentReasoner.from_pretrained(folder), [str(file)], decoding=SHORT)
    with running(str(folder), slots=2, max_tokens=4, max_prompt=96) as served:
        assert prompted.pop() != wanted  # the warm-up question

        def post(path, prompt):
            body = {"model": served.registry.main.name, **prompt}
            return httpx.post(served.url + path, json=body, timeout=60).raise_for_status()

        post("/v1/completions", {"prompt": EXAMPLE.question})
        post("/v1/chat/completions", {"messages": [{"role": "user", "content": EXAMPLE.question}]})
        post("/api/think", {"prompt": EXAMPLE.question})
        assert len(prompted) == 6  # ask in both engines, evaluate, and three routes
        assert set(prompted) == {wanted}
        found = post("/v1/completions", {"prompt": QUESTIONS}).json()
    offline = LatentReasoner.from_pretrained(folder, engine="reference").ask(QUESTIONS, decoding=SHORT)
    assert [choice["text"] for choice in found["choices"]] == [answer.text for answer in offline]
    assert len({answer.text for answer in offline}) == 4, "equal answers could not show a mixed-up question"
    latents = sum(answer.latent_count for answer in offline)
    assert found["usage"]["completion_tokens_details"]["reasoning_tokens"] == latents
    assert found["usage"]["completion_tokens"] == latents + sum(answer.answer_tokens for answer in offline)
