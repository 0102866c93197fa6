"""A served model of every kind of latent method answers as the same model does offline."""

from __future__ import annotations

import httpx
import pytest
import torch
from serve_toys import QUESTIONS, running
from toys import opened

from ruplar.engine.sampling import Decoding
from ruplar.model.store import save_model
from ruplar.reasoner import LatentReasoner

pytestmark = pytest.mark.slow

METHODS = {"colar": {"speed": 3}, "codi": {}, "coconut": {}}


@pytest.fixture(params=METHODS)
def saved(request, tmp_path, tiny_model):
    """The folder of a tiny random model of a method."""
    from ruplar.model.tokenizers import load_tokenizer

    tokenizer = load_tokenizer("embedded")
    tokenizer.save_pretrained(tmp_path / "base")
    tiny_model("llama", len(tokenizer)).save_pretrained(tmp_path / "base")
    torch.manual_seed(1)
    model = opened(request.param, METHODS[request.param], name=str(tmp_path / "base"), lora=None)
    return save_model(tmp_path / "run" / "model", model).parent


def test_a_served_model_answers_as_offline(saved):
    offline = LatentReasoner.from_pretrained(str(saved))
    wanted = offline.ask(QUESTIONS, decoding=Decoding(max_answer_tokens=12))
    assert len({answer.text for answer in wanted}) > 1, "equal answers could not show a mixed-up question"
    # the prompt of CoLaR states its thinking speed; a server that builds prompts itself would lose it
    prompts = [offline.model.prompt(question) for question in QUESTIONS]
    states_speed = "(Thinking speed: 3)" in offline.model.backbone.tokenizer.decode(prompts[0].ids)
    assert states_speed == (offline.model.metadata.method.name == "colar")
    with running(model=str(saved), max_tokens=64) as served:
        body = {"model": "run", "prompt": QUESTIONS, "max_tokens": 12}
        found = httpx.post(f"{served.url}/v1/completions", json=body, timeout=60).json()
    assert [choice["text"] for choice in found["choices"]] == [answer.text for answer in wanted]
    usage = found["usage"]
    assert usage["completion_tokens_details"]["reasoning_tokens"] == sum(a.latent_count for a in wanted) > 0
    assert usage["prompt_tokens"] == sum(len(prompt.ids) for prompt in prompts)
