"""Retry-After: nonsense is ignored, a long pause is logged, and one of hours stops the run."""

from __future__ import annotations

import email.utils
import json
import logging
import signal
import time

import pytest

from ruplar import plugins
from ruplar.data.convert import ByModel, Endpoint, convert, read_prose
from ruplar.data.convert.endpoint import _retry_after
from ruplar.data.convert.messages import load_prompt
from ruplar.errors import UserError

BUSY = json.dumps({"error": {"message": "quota used up"}})


@pytest.fixture(autouse=True)
def _soon():
    """No test here waits as long as its endpoint asks for: after 15 seconds it fails."""

    def over(*_):
        raise TimeoutError("it waited, or asked again, for 15 seconds")

    before = signal.signal(signal.SIGALRM, over)
    signal.alarm(15)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def right_chain(question: str) -> str:
    a, b = (int(word) for word in question.rstrip("?").split() if word.isdigit())
    return f"<<{a}+{b}={a + b}>>"


def first_busy(asks):
    """The first request is told to wait, the others are answered."""
    seen = []

    def script(question, times):
        seen.append(question)
        busy = {"status": 429, "headers": {"Retry-After": asks}, "body": BUSY}
        return busy if len(seen) == 1 else right_chain(question)

    return script


def run(tmp_path, source, server, told=None, **patience):
    place = Endpoint(server.url, "m", timeout=5.0, retries=2, backoff=0.01, **patience)
    way = ByModel(place, load_prompt("arithmetic", plugins.make("domains", "arithmetic")), concurrency=2)
    return convert(read_prose(source), tmp_path / "out.jsonl", "arithmetic", way, on_progress=told)


@pytest.mark.parametrize("asks", ["inf", "Infinity", "nan", "-5", "-inf", "Fri, 31 Dec 99999 23:59:59 GMT"])
def test_a_wait_that_cannot_be_meant_is_passed_over(tmp_path, chat_server, sums, asks):
    assert _retry_after(asks) == 0
    assert run(tmp_path, sums(3), chat_server(first_busy(asks))).progress.converted == 3


@pytest.mark.parametrize(
    ("asks", "told"),
    [
        ("100000", "27.8 hours .Retry-After: 100000"),
        ("1e300", "for years"),
        # the date is written when the tests are gathered and may be read much later
        (email.utils.formatdate(time.time() + 3600 * 100, usegmt=True), r"(100|99|98)\.\d hours .Retry-After: "),
    ],
    ids=["seconds", "for ever", "date"],
)
def test_a_retry_after_of_hours_stops_the_run(tmp_path, chat_server, sums, asks, told):
    source, server = sums(3), chat_server(first_busy(asks))
    with pytest.raises(
        UserError, match=f"asks to wait {told}.*quota used up.*more than the limit of 5 min.*same command again"
    ):
        run(tmp_path, source, server)
    assert run(tmp_path, source, server).progress.converted == 3


def test_a_pause_that_is_kept_to_is_told_once_and_shown_while_it_lasts(
    tmp_path, chat_server, sums, caplog, monkeypatch
):
    from ruplar.data.convert import endpoint

    monkeypatch.setattr(endpoint, "_LONG", 0.2)
    shown = []

    def script(question, times):
        # both that are in flight are told to wait
        return (
            {"status": 429, "headers": {"Retry-After": "0.3"}, "body": BUSY} if times == 1 else right_chain(question)
        )

    with caplog.at_level(logging.WARNING, "ruplar.data.convert.endpoint"):
        found = run(tmp_path, sums(2), chat_server(script), lambda tally: shown.append(tally.waiting))
    assert found.progress.converted == 2 and found.progress.waiting == ""
    assert sum("asks for a pause (Retry-After)" in record.getMessage() for record in caplog.records) == 1
    assert any(text.startswith("waiting 0 s (HTTP 429: quota used up") for text in shown)
