"""`ruplar serve` as a process of its own: curl works, a signal drains it, mistakes are told without a traceback."""

import json
import os
import re
import signal
import socket
import subprocess
import sys

import pytest
from cases import cases
from serve_toys import APPLES

from ruplar.serve import registry
from ruplar.serve.app import ServerConfig, load_models
from ruplar.serve.schemas import Limits

pytestmark = pytest.mark.slow

RUPLAR = [sys.executable, "-m", "ruplar"]
OFFLINE = os.environ | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "RUPLAR_API_KEY": "from-the-environment"}
KEY = ("-H", "Authorization: Bearer from-the-environment")
JSON = ("-H", "Content-Type: application/json")


def test_a_signal_ends_it_after_the_last_answer(started):
    command = [*RUPLAR, "serve", "embedded", "--port", "0", "--compare", "none"]
    server = started(*command, stderr=subprocess.PIPE, env=OFFLINE)
    url = next((found[0] for line in server.stderr if (found := re.search(r"http://[\d.]+:\d+", line))), None)
    assert url, "it did not say where it listens"
    asks = [{"role": "user", "content": APPLES}]
    body = json.dumps({"model": "embedded", "messages": asks, "n": 16, "stream": True})
    asked = started("curl", "-sSN", f"{url}/v1/chat/completions", *KEY, *JSON, "-d", body, stdout=subprocess.PIPE)
    first = asked.stdout.readline()  # the stream has begun
    server.send_signal(signal.SIGTERM)
    said, _ = asked.communicate(timeout=60)
    assert server.wait(60) == 0
    assert said.endswith("data: [DONE]\n\n") and (first + said).count('"content":"10"') == 16


@pytest.mark.parametrize(("words", "said"), cases(__file__, "mistakes"))
def test_mistakes_are_told_in_words(words, said, monkeypatch):
    from typer.testing import CliRunner

    from ruplar.cli import app
    from ruplar.errors import UserError

    monkeypatch.setattr(registry, "WARM_UP_SECONDS", 1e-6 if "first question" in said else 60.0)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1] if "use" in said else 0
        found = CliRunner().invoke(app, ["serve", *words, "--port", str(port)])
    assert isinstance(found.exception, UserError) and said in str(found.exception)


def test_both_models_are_loaded_in_the_named_data_type():
    found = load_models(ServerConfig(model="embedded", dtype="bfloat16"), Limits(slots=1))
    assert [str(one.model.backbone.embedding_weight.dtype) for one in found.models.values()] == ["torch.bfloat16"] * 2
