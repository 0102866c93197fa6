"""Without a key, nobody can hold memory, descriptors or the event loop by what they send before a request is complete."""

import contextlib
import socket
import time

import httpx
import pytest
from serve_toys import APPLES, held, running

from ruplar.serve import connections
from ruplar.serve.auth import HostNames
from ruplar.serve.errors import RequestError
from ruplar.serve.schemas import Limits

pytestmark = pytest.mark.slow

START = b"GET /health HTTP/1.1\r\nhost: localhost\r\n"


@pytest.fixture(scope="module")
def keyed():
    with running(key="secret", max_connections=40, max_client_connections=20) as found:
        yield found


def dial(served, address="127.0.0.1"):
    place = httpx.URL(served.url)
    wire = socket.create_connection((place.host, place.port), timeout=20, source_address=(address, 0))
    return contextlib.closing(wire)


def answer(wire) -> bytes:
    """Everything the server says until it closes the connection."""
    said = b""
    with contextlib.suppress(ConnectionError):
        while part := wire.recv(65536):
            said += part
    return said


def test_large_headers_get_431(keyed):
    header = b"x: " + b"a" * 33_000
    with dial(keyed) as wire:
        wire.sendall(START + header)
        said = answer(wire)
    assert said.startswith(b"HTTP/1.1 431 ") and b'"code":"header_too_large"' in said
    # in one piece behind an answered request, too
    with dial(keyed) as wire:
        wire.sendall(START + b"\r\n" + START + header)
        said = answer(wire)
    assert said.startswith(b"HTTP/1.1 200 ") and b"HTTP/1.1 431 " in said


@pytest.mark.parametrize(("lines", "status"), [(98, b"200"), (99, b"431")])
def test_a_header_has_at_most_100_lines(keyed, lines, status):
    with dial(keyed) as wire:
        wire.sendall(START + b"x: y\r\n" * lines + b"connection: close\r\n\r\n")
        assert answer(wire).startswith(b"HTTP/1.1 " + status)


def test_slow_headers_and_idle_connections_are_closed(keyed, monkeypatch):
    monkeypatch.setattr(connections, "HEADER_SECONDS", 0.3)
    with dial(keyed) as silent, dial(keyed) as slow:
        for byte in START[:8]:
            slow.send(bytes([byte]))
            time.sleep(0.01)
        assert b" 408 " in answer(silent).split(b"\r\n")[0] and b'"code":"slow_header"' in answer(slow)
    with dial(keyed) as wire:  # the second request of a connection is timed like the first
        wire.sendall(START + b"\r\n")
        assert b" 200 " in wire.recv(4096)
        time.sleep(0.5)  # an idle connection that has had an answer is kept longer
        wire.sendall(b"GET")
        assert b'"code":"slow_header"' in answer(wire)


def test_a_body_nobody_reads_cannot_be_sent_for_ever(keyed):
    with dial(keyed) as wire:
        wire.sendall(START + b"content-length: 1000000\r\n\r\n")
        assert b" 200 " in answer(wire)


def test_connections_are_counted_in_all_and_per_client(keyed):
    with contextlib.ExitStack() as stack:
        first = stack.enter_context(dial(keyed))
        time.sleep(0.05)
        for _ in range(19):
            stack.enter_context(dial(keyed))
        # one more from the same address takes the place of the oldest that has sent nothing
        assert httpx.get(f"{keyed.url}/health").status_code == 200
        assert answer(first) == b""
    with contextlib.ExitStack() as stack:
        for number in range(40):  # of two addresses; each has been answered once and stays open
            wire = stack.enter_context(dial(keyed, f"127.0.0.{2 + number % 2}"))
            wire.sendall(START + b"\r\n")
            assert b" 200 " in wire.recv(4096)
        for address in ("127.0.0.2", "127.0.0.4"):
            refused = answer(stack.enter_context(dial(keyed, address)))
            assert refused.startswith(b"HTTP/1.1 429 ") and b'"code":"too_many_connections"' in refused
    time.sleep(0.1)
    assert httpx.get(f"{keyed.url}/health").status_code == 200


def test_a_small_descriptor_limit_lowers_the_connections(monkeypatch, caplog):
    import resource

    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 4096))
    for limits in (Limits(), Limits(max_connections=5000)):
        found = connections.protocol_of(limits)
        # one address leaves room for others
        assert (found.max_connections, found.max_client_connections) == (156, 117)
    assert caplog.text.count("ulimit -n") == 1  # only what was asked for is missed aloud


def test_other_host_names_are_refused_without_a_key(served, keyed):
    def ask(server, host):
        return httpx.get(f"{server.url}/v1/models", headers={"host": host})

    for host in ("localhost", "localhost:8000", "127.0.0.1:1", "[::1]:8000", "LocalHost"):
        assert ask(served, host).status_code == 200
    for host in ("evil.example", "localhost.evil.example:8000", "127.0.0.1.evil.example", "10.0.0.1", ""):
        refused = ask(served, host)
        assert refused.status_code in (400, 421), host
    assert "--allowed-hosts evil.example" in ask(served, "evil.example").json()["error"]["message"]
    assert ask(keyed, "any.example").status_code == 401


def test_host_names_can_be_added():
    names = HostNames.of("0.0.0.0", ["ruplar.local"])
    for good in (b"ruplar.local:80", b"192.168.1.7:8000", b"[fe80::1]", b"localhost"):
        names.check(good)
    with pytest.raises(RequestError, match="--allowed-hosts"):
        names.check(b"other.local")
    HostNames.of("127.0.0.1", ["*"]).check(b"anything")


def test_health_answers_head(served):
    found = httpx.head(f"{served.url}/health")
    assert found.status_code == 200 and not found.content


def test_a_shutdown_answers_a_request_on_an_idle_connection():
    with running() as served, httpx.Client(base_url=served.url) as client:
        assert client.get("/health").status_code == 200
        body = {"model": "embedded", "messages": [{"role": "user", "content": APPLES}]}
        with held(served) as go, client.stream("POST", "/v1/chat/completions", json=body | {"stream": True}) as stream:
            served.server.should_exit = True
            time.sleep(0.4)  # the shutdown has begun; the stream has not announced it
            go.set()
            assert "connection" not in stream.headers and stream.read().endswith(b"data: [DONE]\n\n")
        found = client.post("/v1/chat/completions", json=body, timeout=30)
        assert found.status_code == 200 and found.headers["connection"] == "close"
