"""The playground's routes: a question's thought and answer as events, both models, votes, and what is loaded."""

import json

import httpx
import pytest
from serve_toys import APPLES, running

ASKED = {"model": "embedded", "prompt": APPLES, "seed": 0, "include_reasoning": True}


def think(url, **body):
    """The events of one call: [(name, data), …]."""
    text = httpx.post(f"{url}/api/think", json=ASKED | body, timeout=60).text
    blocks = [block.split("\n") for block in text.strip().split("\n\n")]
    return [(name.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for name, data in blocks]


def only(events, name):
    return [data for kind, data in events if kind == name]


def test_soft_tokens_come_first_and_then_the_answer(served, offline):
    [wanted] = offline.ask([APPLES], return_latents=True)
    events = think(served.url)
    assert [name for name, _ in events] == ["latent", "latent", "token", "done"]
    for place, (found, latent) in enumerate(zip(only(events, "latent"), wanted.latents, strict=True)):
        assert found["index"] == place and found["tokens"] == list(latent.tokens[:10])
        assert found["entropy"] == pytest.approx(latent.entropy, abs=1e-4)
    [done] = only(events, "done")
    assert (done["answer"], done["text"], done["latents"], done["forwards"]) == ("10", "10", 2, wanted.forwards)
    times = [data["ms"] for _, data in events if "ms" in data]
    assert times == sorted(times) and times[0] >= 0
    assert "votes" not in done and done["halted"] and done["ended"]


def test_the_text_model_writes_its_chain(served):
    events = think(served.url, model="embedded:cot")
    assert "".join(data["text"] for data in only(events, "thought")) == "<<3*4=12>> <<12-2=10>>"
    [done] = only(events, "done")
    assert done["answer"] == "10" and done["latents"] == 14 and done["forwards"] == 17
    assert done["steps"] == ["3*4=12", "12-2=10"]


def test_samples_vote(served, offline):
    from ruplar.engine.sampling import Decoding
    from ruplar.evaluate.score import majority

    body = {"n": 6, "noise": 2.0, "seed": 4}
    events = think(served.url, **body)
    each = offline.sample([APPLES], 6, decoding=Decoding(noise=2.0, seed=4))[0]
    [done] = only(events, "done")
    vote = majority(each, offline.model.domain)
    assert done["votes"] == [{"answer": answer, "count": count} for answer, count in vote.counts]
    assert len(vote.counts) > 1 and vote.unreadable == 0 and done["answer"] == vote.counts[0][0]
    assert done["forwards"] == vote.answer.forwards == sum(answer.forwards for answer in each) - 5  # one prefill
    again = think(served.url, **body)
    assert only(again, "done")[0]["votes"] == done["votes"]


def test_what_cannot_be_done_is_refused_before_the_stream(served):
    def status(**body):
        found = httpx.post(f"{served.url}/api/think", json=ASKED | body)
        return found.status_code, found.json()["error"]["param"]

    assert status(n=17) == (400, "n")
    assert status(model="embedded:cot", halt_threshold=0.5) == (400, "halt_threshold")
    assert status(model="oracle") == (404, "model")
    assert status(prompt=" ") == (400, "prompt")
    assert status(prompt=[APPLES, APPLES]) == (400, "prompt")


def test_info_says_what_is_loaded(served):
    found = httpx.get(f"{served.url}/api/info").json()
    assert (found["model"], found["method"], found["latent"]) == ("embedded", "ruplar", True)
    assert found["compare"] == "embedded:cot"
    assert found["noise"] == {"of_samples": 0.3, "adjustable": True}
    assert len(found["examples"]) == 12 and all(e["question"] and e["answer"] for e in found["examples"])
    assert not found["needs_key"]


@pytest.mark.slow
def test_every_model_has_answered_a_question_before_the_first_request():
    with running(compare="embedded:cot") as fresh:
        before = [one.scheduler.seconds_each for one in fresh.registry.models.values()]
    assert len(before) == 2 and 0.1 not in before, "0.1 s is the estimate before any answer"


def test_without_a_text_model_it_says_so():
    with running(model="embedded:no_cot") as alone:
        info = httpx.get(f"{alone.url}/api/info").json()
        assert info["compare"] is None and not info["latent"]
        assert only(think(alone.url, model="embedded:no_cot"), "done")[0]["latents"] == 0
