"""The playground's routes: a question's thought and answer as events, both models, and what is loaded."""

from __future__ import annotations

import json

import httpx
import pytest
from serve_toys import APPLES, running


def think(url, **body):
    """The events of one call: [(name, data), …]."""
    text = httpx.post(f"{url}/api/think", json={"question": APPLES, "method": "ruplar"} | body, timeout=60).text
    blocks = [block.split("\n") for block in text.strip().split("\n\n")]
    return [(name.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for name, data in blocks]


def only(events, name):
    return [data for kind, data in events if kind == name]


def test_soft_tokens_come_first_and_then_the_answer(served, offline):
    [wanted] = offline.ask([APPLES], return_latents=True)
    events = think(served.url)
    assert [name for name, _ in events] == ["start", "latent", "latent", "halt", "token", "done"]
    for place, (found, latent) in enumerate(zip(only(events, "latent"), wanted.latents, strict=True)):
        assert found["index"] == place and found["tokens"] == list(latent.tokens[:10])
        assert found["entropy"] == pytest.approx(latent.entropy, abs=1e-4)
    [done] = only(events, "done")
    assert (done["answer"], done["text"], done["latents"], done["forwards"]) == ("10", "10", 2, wanted.forwards)
    times = [data["ms"] for _, data in events if "ms" in data]
    assert times == sorted(times) and times[0] >= 0
    assert done["halted"] and done["ended"]


def test_the_text_model_writes_its_chain(served):
    events = think(served.url, method="cot")
    assert "".join(data["text"] for data in only(events, "thought")) == "<<3*4=12>> <<12-2=10>>"
    [done] = only(events, "done")
    assert done["answer"] == "10" and done["latents"] == 14 and done["forwards"] == 17
    assert done["steps"] == ["3*4=12", "12-2=10"]


def test_what_cannot_be_done_is_refused_before_the_stream(served):
    def status(**body):
        found = httpx.post(f"{served.url}/api/think", json={"question": APPLES, "method": "ruplar"} | body)
        return found.status_code, found.json()["error"]["param"]

    assert status(method="cot", halt_threshold=0.5) == (400, "halt_threshold")
    assert status(method="oracle") == (400, "method")
    assert status(question=" ") == (400, "question")
    assert status(wibble=1) == (400, "wibble")


def test_info_says_what_is_loaded(served):
    found = httpx.get(f"{served.url}/api/info").json()
    assert (found["model"], found["method"], found["latent"]) == ("embedded", "ruplar", True)
    assert found["compare"] == {"model": "embedded:cot", "method": "cot"}
    assert found["noise"] == {"adjustable": True}
    assert len(found["examples"]) == 12 and all(e["question"] and e["answer"] for e in found["examples"])
    assert not found["needs_key"]


@pytest.mark.slow
def test_every_model_has_answered_a_question_before_the_first_request():
    with running(compare="embedded:cot") as fresh:
        before = [worker.scheduler.seconds_each for worker in fresh.registry.workers.values()]
    assert len(before) == 2 and 0.1 not in before, "0.1 s is the estimate before any answer"


def test_without_a_text_model_it_says_so():
    with running(model="embedded:no_cot") as alone:
        info = httpx.get(f"{alone.url}/api/info").json()
        assert info["compare"] is None and not info["latent"]
        refused = httpx.post(f"{alone.url}/api/think", json={"question": APPLES, "method": "cot"})
        assert refused.status_code == 404 and "--compare" in refused.json()["error"]["message"]
        assert only(think(alone.url), "done")[0]["latents"] == 0
