"""The load script counts right what it sees: answers checked one by one, refusals, and what is not an answer."""

import asyncio

import psutil
import pytest
from scripts import script
from serve_toys import QUESTIONS

pytestmark = pytest.mark.slow


def load(served, bank, clients=8, seconds=0.7):
    port = int(served.url.rsplit(":", 1)[1])
    return asyncio.run(script("serve_load").load(port, psutil.Process(), bank, "embedded", clients, seconds))


def test_right_answers_are_counted_and_wrong_ones_found(served, offline):
    bank = {q: a.text for q, a in zip(QUESTIONS, offline.ask(QUESTIONS), strict=True)}
    found = load(served, bank)
    assert found["answered"] == found["statuses"]["200"] > 0
    assert found["wrong"] == found["lost"] == found["refused_429"] == 0
    assert 0 < found["latency_ms"]["p50"] <= found["latency_ms"]["p99"]
    false = load(served, bank | {QUESTIONS[0]: "11"})
    assert false["wrong"] > 0 and "'10', not '11'" in false["examples_wrong"][0]
