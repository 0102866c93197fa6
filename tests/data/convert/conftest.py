"""A real HTTP server that speaks the chat protocol and replays what a test tells it to."""

import contextlib
import json
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from ruplar import plugins
from ruplar.data.convert.endpoint import ByModel, load_prompt
from ruplar.data.convert.prose import read_prose
from ruplar.data.convert.run import convert


class ChatServer(ThreadingHTTPServer):
    """Answers POST /v1/chat/completions by `script(question, times asked)` → text, or a dict of text, status, body, delay."""

    daemon_threads = True

    def __init__(self, script):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.script, self.asked, self.bodies, self.keys = script, Counter(), [], []
        self.lock = threading.Lock()
        self.flying = self.most_flying = 0
        self.url = f"http://127.0.0.1:{self.server_address[1]}/v1"


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        server: ChatServer = self.server
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        question = body["messages"][1]["content"].partition("Question: ")[2].splitlines()[0]
        with server.lock:
            server.asked[question] += 1
            server.bodies.append(body)
            server.keys.append(self.headers.get("Authorization"))
            server.flying += 1
            server.most_flying = max(server.most_flying, server.flying)
            said = server.script(question, server.asked[question])
        said = {"text": said} if isinstance(said, str) else said
        time.sleep(said.get("delay", 0))
        with server.lock:
            server.flying -= 1
        whole = {"choices": [{"message": {"role": "assistant", "content": said.get("text")}}]}
        data = said.get("body", json.dumps(whole)).encode()
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the client was killed
            self.send_response(said.get("status", 200))
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    def log_message(self, *words):
        """Silent."""


@pytest.fixture
def chat_server():
    """Script → a running server."""
    running = []

    def start(script) -> ChatServer:
        server = ChatServer(script)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        running.append(server)
        return server

    yield start
    for server in running:
        server.shutdown()
        server.server_close()


@pytest.fixture
def sums(tmp_path):
    """How many → a file of questions `What is 3+4?` without chains, and the chain that is right for each."""

    def write(count: int, name: str = "sums.jsonl"):
        rows = [{"question": f"What is {n} plus {2 * n}?", "answer": str(3 * n)} for n in range(1, count + 1)]
        path = tmp_path / name
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        return path

    return write


@pytest.fixture
def run(tmp_path):
    """A source and a server, or None for rules → the progress of converting it to out.jsonl; failed requests are not retried."""

    def start(source, server=None, *, limit=None, domain="arithmetic", retry_rejected=False, told=None, **settings):
        by = None
        if server is not None:
            prompt = load_prompt(domain, plugins.make("domains", domain))
            by = ByModel(server.url, "m", prompt, "secret", **({"retries": 0} | settings))
        options = {"retry_rejected": retry_rejected} | ({"on_progress": told} if told else {})
        return convert(read_prose(source, limit=limit), tmp_path / "out.jsonl", domain, by, **options)

    return start


@pytest.fixture
def kept(tmp_path):
    """The rows of out.jsonl."""
    return lambda: _lines(tmp_path / "out.jsonl")


@pytest.fixture
def rejected(tmp_path):
    """The rows of out.jsonl.rejected.jsonl."""
    return lambda: _lines(tmp_path / "out.jsonl.rejected.jsonl")


@pytest.fixture
def journal(tmp_path):
    """The lines of out.jsonl.journal."""
    return lambda: _lines(tmp_path / "out.jsonl.journal")


def _lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
