"""A server under load, under attack without a key, and ended under load."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import os
import random
import resource
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import serve_load
from files import mutated, mutated_json
from tally import Tally

QUESTION = "Tom has 3 bags of 4 apples. How many apples does he have?"
BODY = {"model": "embedded", "messages": [{"role": "user", "content": QUESTION}], "max_tokens": 8}
HEAD = b"GET /health HTTP/1.1\r\nhost: localhost\r\n"
SERVE = ("-m", "ruplar", "serve", "embedded", "--port", "0", "--compare", "none")


def load(count: int, draw: random.Random, folder: Path) -> Tally:
    """Many clients; every answer is compared with the offline engine's."""
    import psutil

    seconds = 60 if count >= 100 else 10
    tally = Tally(f"server: {count} clients for {seconds} s", "0 lost, 0 mixed up, 0 5xx, memory bounded")
    bank = serve_load.known_answers("embedded", 100, draw.randrange(1000))
    process, port = serve_load.start(*SERVE, "--max-queue", "1024", "--timeout", "300")
    try:
        watched = psutil.Process(process.pid)
        asyncio.run(serve_load.load(port, watched, bank, "embedded", 2, 2.0))
        found = asyncio.run(serve_load.load(port, watched, bank, "embedded", count, seconds))
    finally:
        process.send_signal(signal.SIGTERM)
        code = process.wait(120)
    tally.tried = found["answered"] + found["wrong"] + found["lost"]
    for name in ("wrong", "lost"):
        tally.failures += [f"{found[name]} {name}: {found['examples_wrong']}"] if found[name] else []
    tally.failures += [] if found["memory_bounded"] else [f"memory: {found['memory_mb']}"]
    tally.failures += [f"status {code}"] if code else []
    tally.figures = {"questions/s": found["questions_per_s"], "p99": f"{found['latency_ms']['p99']:.0f} ms",
                     "memory": f"{found['memory_mb']['max']:.0f} MB"}  # fmt: skip
    return tally


def attack(count: int, draw: random.Random, folder: Path) -> list[Tally]:
    """What a client without the key, or with it, can send; meanwhile another client asks for /health."""
    import psutil

    _allow_files(4096)
    os.environ["RUPLAR_API_KEY"] = "secret"
    process, port = serve_load.start(*SERVE)
    watched = psutil.Process(process.pid)
    threading.Thread(target=lambda: [None for _ in process.stderr], daemon=True).start()  # or its log would block it
    try:
        return [
            _malformed(port, 10 * count, draw),
            _hung_up(port, max(10, count // 4), draw),
            _watched("server: headers of 100 MB without a key", port, watched, _large_headers, 3),
            _watched("server: slow headers (slowloris) without a key", port, watched, _slow_headers, 200),
            _watched("server: idle connections without a key", port, watched, _idle, count),
        ]
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(120)


def _allow_files(wanted: int) -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, hard), hard))


def _post(port: int, body: bytes) -> tuple[int, bytes]:
    wire = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        wire.request(
            "POST", serve_load.PATH, body, {"content-type": "application/json", "authorization": "Bearer secret"}
        )
        reply = wire.getresponse()
        return reply.status, reply.read()
    finally:
        wire.close()


def _malformed(port: int, count: int, draw: random.Random) -> Tally:
    tally = Tally("server: malformed bodies", "200 or 4xx with an error in words, never 5xx")
    for _ in range(count):
        _send_malformed(port, draw, tally)
    return tally


def _send_malformed(port: int, draw: random.Random, tally: Tally) -> None:
    if draw.random() < 0.6:
        content = json.dumps(mutated_json(draw, BODY)).encode("utf-8", "surrogatepass")
    else:
        content = mutated(draw, json.dumps(BODY).encode())
    try:
        status, said = _post(port, content)
        good = status == 200 or (400 <= status < 500 and json.loads(said)["error"]["message"])
    except Exception as error:
        status, good = repr(error), False
    tally.check(bool(good), f"{status} for {content[:300]!r}")
    tally.figures[str(status)] = tally.figures.get(str(status), 0) + 1


def _hang_up(port: int, draw: random.Random, tally: Tally) -> None:
    """Close a stream after its first bytes."""
    body = json.dumps({**BODY, "n": 8, "stream": True}).encode()
    head = f"POST {serve_load.PATH} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer secret\r\n"
    head += f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", port), timeout=60) as wire:
        wire.sendall(head.encode() + body)
        tally.check(wire.recv(100).startswith(b"HTTP/1.1 200"), "a stream did not start")


def _hung_up(port: int, count: int, draw: random.Random) -> Tally:
    tally = Tally("server: streams whose client hangs up", "slots come free; the next answer is right")
    for _ in range(count):
        _hang_up(port, draw, tally)
    ends = time.monotonic() + 60
    while b'ruplar_slots_in_use{model="embedded"} 0.0' not in _metrics(port) and time.monotonic() < ends:
        time.sleep(0.1)
    status, said = _post(port, json.dumps(BODY).encode())
    tally.check(time.monotonic() < ends and status == 200 and b'"12"' in said, f"afterwards: {status} {said[:300]!r}")
    return tally


def steady(count: int, draw: random.Random, folder: Path) -> Tally:
    """Minutes of questions, streams, malformed bodies and clients that hang up, about five a second."""
    import psutil

    tally = Tally(f"server: {count} minutes of mixed requests", "0 lost, 0 mixed up, 0 5xx, memory flat")
    bank = serve_load.known_answers("embedded", 100, draw.randrange(1000))
    os.environ["RUPLAR_API_KEY"] = "secret"
    process, port = serve_load.start(*SERVE)
    threading.Thread(target=lambda: [None for _ in process.stderr], daemon=True).start()
    watched, memory, began = psutil.Process(process.pid), [], time.monotonic()

    def ask(port: int, draw: random.Random, tally: Tally) -> None:
        question, stream = draw.choice(list(bank)), draw.random() < 0.5
        body = {"model": "embedded", "messages": [{"role": "user", "content": question}], "stream": stream}
        status, said = _post(port, json.dumps(body).encode())
        tally.check(status == 200 and serve_load.text_of(said, stream) == bank[question], f"{status} {said[:300]!r}")

    try:
        while (spent := time.monotonic() - began) < 60 * count:
            draw.choice((ask, ask, _send_malformed, _hang_up))(port, draw, tally)
            memory.append((spent, watched.memory_info().rss / 1e6))
            time.sleep(0.1)
    finally:
        process.send_signal(signal.SIGTERM)
        code = process.wait(120)
    tally.failures += [f"exit status {code}"] if code else []
    tenth = 6 * count  # seconds; the first tenth warms up
    early = max(size for spent, size in memory if tenth < spent < 2 * tenth)
    late = max(size for spent, size in memory if spent > 9 * tenth)
    tally.figures = {f"memory after {2 * tenth / 60:g} minutes": f"{early:.0f} MB", "at the end": f"{late:.0f} MB"}
    if late > 1.02 * early:
        tally.failures.append(f"memory grew from {early:.0f} to {late:.0f} MB")
    return tally


def _metrics(port: int) -> bytes:
    wire = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    wire.request("GET", "/metrics", headers={"authorization": "Bearer secret"})
    return wire.getresponse().read()


def _watched(name: str, port: int, watched, send, count: int) -> Tally:
    """Ask for /health from another address while `send` runs; note the slowest reply and the memory."""
    tally, done, slowest = Tally(name, "/health answers; memory and descriptors bounded"), threading.Event(), 0.0
    before, most_files, most_memory = watched.memory_info().rss, 0, 0

    def ask() -> None:
        nonlocal slowest, most_files, most_memory
        while not done.is_set():
            began = time.monotonic()
            try:
                wire = http.client.HTTPConnection("127.0.0.1", port, 60, ("127.0.0.9", 0))
                wire.request("GET", "/health")
                good = wire.getresponse().status == 200
                wire.close()
            except OSError as error:
                good = False
                tally.failures.append(f"/health: {error!r}")
            slowest = max(slowest, time.monotonic() - began)
            most_files, most_memory = max(most_files, watched.num_fds()), max(most_memory, watched.memory_info().rss)
            if not good:
                tally.failures.append("/health did not answer 200")
            time.sleep(0.02)

    other = threading.Thread(target=ask)
    other.start()
    try:
        for outcome, number in send(port, count).items():
            tally.figures[outcome] = number
    finally:
        done.set()
        other.join()
    grown = (most_memory - before) / 1e6
    tally.tried = count
    tally.figures |= {
        "slowest /health": f"{1000 * slowest:.0f} ms",
        "descriptors": most_files,
        "memory": f"+{grown:.0f} MB",
    }
    if grown > 60:
        tally.failures.append(f"memory grew by {grown:.0f} MB")
    return tally


def _large_headers(port: int, count: int) -> Counter:
    found: Counter = Counter()
    for _ in range(count):
        sent = 0
        with socket.create_connection(("127.0.0.1", port), timeout=60) as wire, contextlib.suppress(OSError):
            wire.sendall(HEAD + b"x: ")
            while sent < 100_000_000:
                sent += wire.send(b"a" * 65536)
        found["accepted whole" if sent >= 100_000_000 else "cut off"] += 1
    return found


@contextlib.contextmanager
def _opened(port: int, count: int) -> Iterator[list[socket.socket]]:
    wires = [socket.create_connection(("127.0.0.1", port), timeout=60) for _ in range(count)]
    try:
        yield wires
    finally:
        for wire in wires:
            wire.close()


def _slow_headers(port: int, count: int) -> Counter:
    """Send one byte of a header per second until the server ends the connections."""
    with _opened(port, count) as wires:
        for byte in HEAD[:13]:
            for wire in wires:
                with contextlib.suppress(OSError):
                    wire.send(bytes([byte]))
            time.sleep(1)
        return _ended(wires)


def _idle(port: int, count: int) -> Counter:
    with _opened(port, count) as wires:
        time.sleep(13)
        return _ended(wires)


def _ended(wires: list[socket.socket]) -> Counter:
    found: Counter = Counter()
    for wire in wires:
        wire.settimeout(0.01)
        try:
            said = wire.recv(100)
        except TimeoutError:
            found["still open"] += 1
        except OSError:
            found["reset"] += 1
        else:
            found[said.split()[1].decode() if said else "closed for a newer one"] += 1
    return found


def drain(count: int, draw: random.Random, folder: Path) -> Tally:
    """SIGTERM while 100 clients ask: what was sent is answered, and the process ends with status 0."""
    tally = Tally(
        f"server: SIGTERM under load of 100 clients, {count} times", "0 lost, 0 mixed up, 0 5xx but 503, status 0"
    )
    bank = serve_load.known_answers("embedded", 50, 7)
    os.environ.pop("RUPLAR_API_KEY", None)
    for _ in range(count):
        process, port = serve_load.start(*SERVE, "--max-queue", "1024")
        statuses = asyncio.run(_ask_until_refused(port, bank, process, draw.uniform(1, 3)))
        code = process.wait(120)
        tally.tried += sum(statuses.values())
        tally.failures += [f"{number} {name}" for name, number in statuses.items() if name not in (200, 503)]
        tally.failures += [f"exit status {code}"] if code else []
        for name, number in statuses.items():
            tally.figures[f"status {name}"] = tally.figures.get(f"status {name}", 0) + number
    return tally


async def _ask_until_refused(port: int, bank: dict[str, str], process, seconds: float) -> Counter:
    found: Counter = Counter()

    async def client(number: int) -> None:
        draw, wire = random.Random(number), None
        while True:
            question, stream = draw.choice(list(bank)), number % 5 == 0
            try:
                if wire is None or wire[0].at_eof():
                    wire = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                return  # the port is closed
            body = json.dumps(
                {"model": "embedded", "messages": [{"role": "user", "content": question}], "stream": stream}
            )
            try:
                status, said, keep = await asyncio.wait_for(serve_load.exchange(wire, body.encode()), 120)
                right = status != 200 or serve_load.text_of(said, stream) == bank[question]
                found[status if right else "mixed up"] += 1
            except (OSError, TimeoutError, asyncio.IncompleteReadError, ValueError) as error:
                found[f"lost ({type(error).__name__})"] += 1
                keep = False
            if not keep:
                wire[1].close()
                wire = None

    async def stop() -> None:
        await asyncio.sleep(seconds)
        process.send_signal(signal.SIGTERM)

    await asyncio.gather(stop(), *(client(number) for number in range(100)))
    return found
