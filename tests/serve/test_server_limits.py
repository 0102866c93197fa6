"""Limits hold before anything is allocated, nobody can hold a slot by leaving, and the server outlives what is sent to it."""

import base64
import http.client
import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from serve_toys import APPLES, held, running

pytestmark = pytest.mark.slow

CHAT = {"model": "embedded", "messages": [{"role": "user", "content": APPLES}]}
PATH = "/v1/chat/completions"


def until(check, seconds=20.0):
    ends = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < ends, "it did not come about"
        time.sleep(0.01)


def error_of(response):
    return response.json()["error"]


@pytest.fixture(scope="module")
def small():
    """One slot, a short queue, small bodies."""
    with running(slots=1, max_queue=4, max_body=2048, max_prompt=64) as found:
        yield found


@pytest.fixture(scope="module")
def hasty():
    """One slot and a short timeout."""
    with running(slots=1, timeout=1.0) as found:
        yield found


def test_large_bodies_are_refused_by_their_length_and_by_counting(small):
    big = json.dumps(CHAT | {"user": "x" * 3000}).encode()
    head = {"content-type": "application/json"}
    assert httpx.post(small.url + PATH, content=big, headers=head).status_code == 413
    pieces = (big[at : at + 500] for at in range(0, len(big), 500))
    counted = httpx.post(small.url + PATH, content=pieces, headers=head)  # chunked: no length is given
    assert counted.status_code == 413 and error_of(counted)["code"] == "body_too_large"


def test_a_length_that_lies_frees_its_connection(hasty):
    place = httpx.URL(hasty.url)
    with socket.create_connection((place.host, place.port)) as wire:
        wire.sendall(
            f"POST {PATH} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 900\r\n\r\n{{".encode()
        )
        wire.settimeout(20)
        assert b"408" in wire.recv(4096).split(b"\r\n")[0]  # the body did not arrive in time


def test_only_json_is_read(small):
    refused = httpx.post(small.url + PATH, content=b"{}", headers={"content-type": "text/plain"})
    assert refused.status_code == 415 and "application/json" in error_of(refused)["message"]


def test_long_questions_are_refused_before_they_are_read(small):
    def ask(text):
        return httpx.post(small.url + PATH, json=CHAT | {"messages": [{"role": "user", "content": text}]})

    tokens = ask("one two three " * 40)
    assert tokens.status_code == 400 and "the maximum is 64" in error_of(tokens)["message"]
    with running(max_prompt=16, max_body=100_000) as tight:
        letters = httpx.post(tight.url + PATH, json=CHAT | {"messages": [{"role": "user", "content": "a" * 513}]})
        assert "513 characters" in error_of(letters)["message"]  # 16 tokens of 32 characters are 512
        assert error_of(letters)["code"] == "context_length_exceeded"


def test_a_full_queue_refuses_and_the_rest_are_answered(small):
    never = httpx.post(small.url + PATH, json=CHAT | {"n": 5, "temperature": 1})  # no retry would help
    assert never.status_code == 400 and "at most 4 are allowed" in error_of(never)["message"]
    with ThreadPoolExecutor(12) as pool, held(small) as go:
        waiting = [pool.submit(httpx.post, small.url + PATH, json=CHAT, timeout=30) for _ in range(5)]
        until(lambda: len(small.scheduler.queue) == 4 and len(small.scheduler.in_flight) == 1)
        refused = [httpx.post(small.url + PATH, json=CHAT) for _ in range(5)]
        assert {r.status_code for r in refused} == {429}
        assert all(int(r.headers["retry-after"]) >= 1 and error_of(r)["code"] == "queue_full" for r in refused)
        assert len(small.scheduler.queue) == 4
        go.set()
        answered = [w.result() for w in waiting]
    assert [r.json()["choices"][0]["message"]["content"] for r in answered] == ["10"] * 5


def test_time_is_limited_and_the_slot_comes_free(hasty):
    with held(hasty) as go:
        late = httpx.post(hasty.url + PATH, json=CHAT, timeout=30)
        assert late.status_code == 504 and error_of(late)["type"] == "timeout_error"
        streamed = httpx.post(hasty.url + PATH, json=CHAT | {"stream": True}, timeout=30).text
        assert '"type":"timeout_error"' in streamed and streamed.endswith("data: [DONE]\n\n")
        go.set()
    assert hasty.quiet()
    until(lambda: httpx.post(hasty.url + PATH, json=CHAT, timeout=30).status_code == 200)


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_leaves_frees_its_slot(small, stream):
    with held(small) as go:
        place = httpx.URL(small.url)
        gone = http.client.HTTPConnection(place.host, place.port)
        body = json.dumps(CHAT | {"stream": stream})
        gone.request("POST", PATH, body, {"content-type": "application/json"})
        until(lambda: small.scheduler.in_flight)
        ticket = next(iter(small.scheduler.in_flight.values()))
        assert not ticket.dropped
        gone.sock.shutdown(socket.SHUT_RDWR)
        gone.close()
        until(lambda: ticket.dropped)  # the request itself would time out after 60 s
        go.set()
    assert small.quiet()
    answer = httpx.post(small.url + PATH, json=CHAT, timeout=30).json()
    assert answer["choices"][0]["message"]["content"] == "10"


@pytest.mark.parametrize("path", [PATH, "/v1/completions", "/api/think"])
def test_broken_bodies_are_refused_in_words(served, path):
    whole = json.dumps(CHAT).encode()
    broken = [b"", whole[:40], b"[" * 2000, b"\xff\x00" * 50, b"null", b"[[]]", b'{"messages": [null]}', b'{"n": NaN}']
    for body in broken:
        found = httpx.post(served.url + path, content=body, headers={"content-type": "application/json"})
        assert found.status_code == 400 and set(found.json()["error"]) == {"message", "type", "param", "code"}, body


def test_no_route_answers_without_the_key_but_health():
    with running(key="kéy") as served:
        paths = ["/v1/models", "/metrics", "/openapi.json", "/", "/api/info", "/static/x", "/nowhere"]
        for given in (None, "Bearer wrong", "Basic !", "kéy".encode()):
            headers = {} if given is None else {"authorization": given}
            assert {httpx.get(served.url + path, headers=headers).status_code for path in paths} == {401}
            for path in (PATH, "/v1/completions", "/api/think"):
                found = httpx.post(served.url + path, json=CHAT, headers=headers)
                assert found.status_code == 401 and error_of(found)["code"] == "invalid_api_key"
        assert httpx.get(f"{served.url}/health").status_code == 200
        right = {"authorization": "Bearer kéy".encode()}
        assert httpx.get(f"{served.url}/v1/models", headers=right).status_code == 200
        basic = base64.b64encode("anyone:kéy".encode()).decode()
        assert httpx.get(f"{served.url}/v1/models", headers={"authorization": f"Basic {basic}"}).status_code == 200
        asked = httpx.get(f"{served.url}/").headers["www-authenticate"]
        assert "Basic" in asked, "so that a browser asks for it"


def test_a_failure_of_the_engine_is_told_and_outlived():
    with running(slots=1) as served:  # with the time a busy machine may need
        engine = served.scheduler.engine
        step = engine.step

        def breaks():
            engine.step = step
            raise RuntimeError("a bad day")

        engine.step = breaks
        found = httpx.post(served.url + PATH, json=CHAT, timeout=30)
        assert found.status_code == 500 and error_of(found)["code"] == "engine_failed"
        assert "bad day" not in found.text, "what failed inside is for the log"
        assert httpx.post(served.url + PATH, json=CHAT, timeout=30).status_code == 200
        assert httpx.get(f"{served.url}/health").status_code == 200


def test_a_dead_engine_is_red_and_says_so():
    with running() as served:
        assert httpx.get(f"{served.url}/health").json() == {"status": "ok", "models": {"embedded": "ok"}}
        served.scheduler.engine.step = lambda: (_ for _ in ()).throw(SystemExit("gone"))
        died = httpx.post(served.url + PATH, json=CHAT, timeout=30)
        assert died.status_code == 503 and error_of(died)["code"] == "engine_dead"
        until(lambda: not served.scheduler.alive)
        health = httpx.get(f"{served.url}/health")
        assert health.status_code == 503 and health.json()["models"] == {"embedded": "dead"}
        later = httpx.post(served.url + PATH, json=CHAT, timeout=30)
        assert later.status_code == 503


def test_an_engine_that_hangs_is_red():
    with running(timeout=0.5) as served, held(served):
        assert httpx.post(served.url + PATH, json=CHAT, timeout=30).status_code == 504
        until(lambda: httpx.get(f"{served.url}/health").status_code == 503)


def test_metrics_count_what_happened(small):
    def read():
        lines = httpx.get(f"{small.url}/metrics").text.splitlines()
        return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in lines if not line.startswith("#")}

    before = read()
    httpx.post(small.url + PATH, json=CHAT, timeout=30)
    httpx.post(small.url + PATH, json=CHAT | {"n": -1})
    for path in ("/health", "/nowhere", "/v1/models/embedded"):
        httpx.get(small.url + path)
    after = read()

    def grew(name):
        return after[name] - before.get(name, 0)

    assert grew(f'ruplar_requests_total{{route="{PATH}",status="200"}}') == 1
    assert grew(f'ruplar_requests_total{{route="{PATH}",status="400"}}') == 1
    assert grew(f'ruplar_request_seconds_count{{route="{PATH}"}}') == 2
    for route, status in ("/health", 200), ("/v1/models", 200), ("other", 404):
        assert grew(f'ruplar_requests_total{{route="{route}",status="{status}"}}') == 1
    assert grew('ruplar_latents_count{model="embedded"}') == 1 and grew('ruplar_latents_sum{model="embedded"}') == 2
    assert after['ruplar_queue_length{model="embedded"}'] == after['ruplar_slots_in_use{model="embedded"}'] == 0
