"""Load test of `ruplar serve` with many clients: questions per second, latencies and memory, compared with naive servers.

    python benchmarks/serve_load.py --clients 500 --seconds 60 --output results/serve/load-500.json

Every client sends one question after the other over a keep-alive connection; one in five reads a stream. Every answer is
compared with the offline engine's. Each server and the clients run in their own processes. The same clients also query two
naive servers that answer one request at a time, with the fast and with the reference engine. A rejected request (429) is
counted and retried after a moment; any other response that is not the correct answer is an error.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

PATH = "/v1/chat/completions"
STREAMING = 5  # one client in five reads a stream
SAMPLE_EVERY = 0.5  # seconds between memory samples


@dataclass
class Tally:
    """What the clients measured of one server."""

    seconds: list[float] = field(default_factory=list)
    right: int = 0
    wrong: list[str] = field(default_factory=list)
    refused: int = 0
    statuses: dict[str, int] = field(default_factory=dict)
    lost: int = 0
    memory: list[float] = field(default_factory=list)
    cpu: float = 0.0  # CPU seconds of the server

    def summary(self, wall: float) -> dict[str, Any]:
        """Return the values for the record."""
        ordered = sorted(self.seconds)
        shares = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}
        spread = {
            name: ordered[min(int(share * len(ordered)), len(ordered) - 1)]
            for name, share in shares.items()
            if ordered
        }
        early = max(self.memory[: max(1, len(self.memory) // 3)], default=0)
        return {
            "answered": self.right,
            "wrong": len(self.wrong),
            "lost": self.lost,
            "refused_429": self.refused,
            "statuses": self.statuses,
            "wall_s": round(wall, 2),
            "questions_per_s": round(self.right / wall, 2),
            "latency_ms": {"mean": round(1000 * statistics.fmean(ordered), 2) if ordered else None}
            | {name: round(1000 * value, 2) for name, value in spread.items()},
            "server_cpu_ms_per_question": round(1000 * self.cpu / self.right, 3) if self.right else None,
            "memory_mb": {"first_third_max": round(early, 1), "max": round(max(self.memory, default=0), 1)},
            "memory_bounded": bool(self.memory) and max(self.memory) <= 1.1 * early + 20,
            "examples_wrong": self.wrong[:3],
        }


@dataclass
class Client:
    """One client: sends a question, checks the answer, repeats."""

    number: int
    port: int
    bank: dict[str, str]
    model: str
    tally: Tally
    ends: float

    async def run(self) -> None:
        """Send questions until the time is over; the last one is still awaited."""
        draw, wire = random.Random(self.number), None
        await asyncio.sleep(draw.random() * 0.5)
        while time.perf_counter() < self.ends:
            question = draw.choice(list(self.bank))
            stream = self.number % STREAMING == 0
            try:
                wire = wire or await asyncio.open_connection("127.0.0.1", self.port)
                start = time.perf_counter()
                status, body, keep = await asyncio.wait_for(exchange(wire, self._body(question, stream)), 600)
            except (OSError, TimeoutError, asyncio.IncompleteReadError, ValueError) as error:
                self.tally.lost += 1
                name = type(error).__name__
                self.tally.statuses[name] = self.tally.statuses.get(name, 0) + 1
                if wire:
                    wire[1].close()
                wire = None
                await asyncio.sleep(0.2)
                continue
            self._note(status, body, stream, question, time.perf_counter() - start)
            if not keep:
                wire[1].close()
                wire = None
            if status == 429:
                await asyncio.sleep(0.1 + 0.4 * draw.random())
        if wire:
            wire[1].close()

    def _body(self, question: str, stream: bool) -> bytes:
        messages = [{"role": "user", "content": question}]
        return json.dumps({"model": self.model, "messages": messages, "stream": stream}).encode()

    def _note(self, status: int, body: bytes, stream: bool, question: str, seconds: float) -> None:
        tally = self.tally
        tally.statuses[str(status)] = tally.statuses.get(str(status), 0) + 1
        if status == 429:
            tally.refused += 1
        elif status != 200:
            tally.wrong.append(f"{status}: {body[:200]!r}")
        else:
            said = text_of(body, stream)
            if said == self.bank[question]:
                tally.right += 1
                tally.seconds.append(seconds)
            else:
                tally.wrong.append(f"{question!r}: {said!r}, not {self.bank[question]!r}")


async def exchange(wire: tuple[asyncio.StreamReader, asyncio.StreamWriter], body: bytes) -> tuple[int, bytes, bool]:
    """Send one HTTP/1.1 request; return status, body, and whether the connection stays open."""
    reader, writer = wire
    head = f"POST {PATH} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    await writer.drain()
    lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower().split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines[1:] if ": " in line)
    if "content-length" in headers:
        found = await reader.readexactly(int(headers["content-length"]))
    else:
        found = b""
        while size := int(await reader.readline(), 16):
            found += (await reader.readexactly(size + 2))[:-2]
        await reader.readline()
    return int(lines[0].split()[1]), found, headers.get("connection") != "close"


def text_of(body: bytes, stream: bool) -> str:
    """Return the answer in a body or in a complete stream."""
    if not body.startswith(b"data:"):
        return json.loads(body)["choices"][0]["message"]["content"]
    assert stream and body.endswith(b"data: [DONE]\n\n"), body[-100:]
    pieces = [json.loads(line[6:]) for line in body.decode().split("\n\n")[:-2]]
    return "".join(p["choices"][0]["delta"].get("content", "") for p in pieces)


async def load(
    port: int, process: psutil.Process, bank: dict[str, str], model: str, clients: int, seconds: float
) -> dict:
    """Run all clients against one server and sample its memory."""
    tally, start = Tally(), time.perf_counter()
    many = [Client(i, port, bank, model, tally, start + seconds) for i in range(clients)]
    before = sum(process.cpu_times()[:2])
    queries = asyncio.gather(*(c.run() for c in many))
    while not queries.done():
        tally.memory.append(process.memory_info().rss / 1e6)
        await asyncio.wait([queries], timeout=SAMPLE_EVERY)
    await queries
    tally.cpu = sum(process.cpu_times()[:2]) - before
    return tally.summary(time.perf_counter() - start)


async def naive(port: int, model: str, engine: str) -> None:
    """Serve one request at a time, as a short script around a model does."""
    from ruplar.reasoner import LatentReasoner

    reasoner = LatentReasoner.from_pretrained(model, engine=engine)  # type: ignore[arg-type]

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                size = int(re.search(r"content-length: (\d+)", head)[1])  # type: ignore[index]
                request = json.loads(await reader.readexactly(size))
                [answer] = reasoner.ask([request["messages"][0]["content"]], batch_size=1)
                body = json.dumps({"choices": [{"message": {"content": answer.text}}]}).encode()
                writer.write(f"HTTP/1.1 200 OK\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", port, backlog=2048)
    print(f"at http://127.0.0.1:{server.sockets[0].getsockname()[1]}", file=sys.stderr, flush=True)
    await server.serve_forever()


def start(*words: str) -> tuple[subprocess.Popen, int]:
    """Start a server process; return it and its port once it listens."""
    process = subprocess.Popen([sys.executable, *words], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    for line in process.stderr:
        found = re.search(r"http://127\.0\.0\.1:(\d+)", line)
        if found:
            return process, int(found[1])
    raise SystemExit(f"the server did not start: {' '.join(words)}")


def measure(
    options: argparse.Namespace, bank: dict[str, str], seconds: float, title: str, *words: str
) -> dict[str, Any]:  # fmt: skip
    """Start a server, load it, stop it; return its results."""
    process, port = start(*words)
    try:
        watched = psutil.Process(process.pid)
        asyncio.run(load(port, watched, bank, options.model, 2, min(2.0, seconds)))  # first requests warm it up
        found = asyncio.run(load(port, watched, bank, options.model, options.clients, seconds))
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(120)
        finally:
            process.kill()  # does nothing if it has stopped
    print(f"{title:>24}  {found['questions_per_s']:8.1f} questions/s  p50 {found['latency_ms']['p50']} ms  "
          f"p99 {found['latency_ms']['p99']} ms  429: {found['refused_429']}  wrong {found['wrong']}  lost {found['lost']}  "
          f"{found['memory_mb']['max']:.0f} MB", flush=True)  # fmt: skip
    return found


def known_answers(model: str, count: int, seed: int) -> dict[str, str]:
    """Return held-out problems with the offline engine's answers."""
    from ruplar.problems.word_problems import generate
    from ruplar.reasoner import LatentReasoner

    questions = [e.question for e in generate(count, seed, split="test")]
    answers = LatentReasoner.from_pretrained(model).ask(questions)
    return {q: a.text for q, a in zip(questions, answers, strict=True)}


def main() -> int:
    """Measure and write the record; return 1 if an answer was wrong or lost."""
    words = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    words.add_argument("--model", default="embedded")
    words.add_argument("--clients", type=int, default=500)
    words.add_argument("--seconds", type=float, default=60.0)
    words.add_argument("--naive-seconds", type=float, help="seconds per naive server; default: a third of --seconds")
    words.add_argument("--questions", type=int, default=200)
    words.add_argument("--seed", type=int, default=11)
    words.add_argument("--slots", type=int, default=32)
    words.add_argument("--max-queue", type=int, default=512)
    words.add_argument("--output", type=Path, help="write the record to this file")
    words.add_argument("--naive", nargs=2, metavar=("PORT", "ENGINE"), help=argparse.SUPPRESS)
    options = words.parse_args()
    if options.naive:
        asyncio.run(naive(int(options.naive[0]), options.model, options.naive[1]))
        return 0
    bank = known_answers(options.model, options.questions, options.seed)
    naive_seconds = options.naive_seconds or options.seconds / 3
    limits = ("--slots", str(options.slots), "--max-queue", str(options.max_queue), "--timeout", "300")
    ours = measure(options, bank, options.seconds, "ruplar serve", "-m", "ruplar", "serve", options.model, "--port", "0",
                   "--compare", "none", *limits)  # fmt: skip
    naive_servers = {
        engine: measure(
            options,
            bank,
            naive_seconds,
            f"one at a time, {engine}",
            __file__,
            "--model",
            options.model,
            "--naive",
            "0",
            engine,
        )
        for engine in ("fast", "reference")
    }
    record = about(options) | {
        "ruplar_serve": ours,
        "naive_fast_engine": naive_servers["fast"],
        "naive_plain_loop": naive_servers["reference"],
    }
    record["times_naive_fast"] = round(
        ours["questions_per_s"] / max(naive_servers["fast"]["questions_per_s"], 1e-9), 2
    )
    record["times_naive_plain"] = round(
        ours["questions_per_s"] / max(naive_servers["reference"]["questions_per_s"], 1e-9), 2
    )
    if options.output:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    clean = not (ours["wrong"] or ours["lost"]) and ours["memory_bounded"]
    print("all answers correct, none lost, memory bounded" if clean else "NOT CLEAN: see the record", flush=True)
    return 0 if clean else 1


def about(options: argparse.Namespace) -> dict[str, Any]:
    """Return the settings, machine and versions."""
    from ruplar.evaluate.record import commit_of, machine, versions

    commit, dirty = commit_of(Path(__file__).parent)
    settings = {k: v for k, v in vars(options).items() if k not in ("naive", "json")}
    return {
        "what": "serve_load",
        "when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "commit": commit,
        "dirty": dirty,
        "machine": machine().model_dump(mode="json"),
        "threads": os.environ.get("OMP_NUM_THREADS"),
        "versions": versions(),
        "settings": settings,
        "clients_streaming": f"1 in {STREAMING}",
    }


if __name__ == "__main__":
    raise SystemExit(main())
