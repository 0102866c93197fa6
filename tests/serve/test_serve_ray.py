"""`ruplar serve --ray` on a real cluster of two nodes, one of which is killed while questions are answered."""

import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import openai
import pytest
from serve_toys import QUESTIONS


@contextmanager
def served(started, cluster, folder, *options):
    """The address of a server on the cluster; SIGTERM ends it with status 0."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = ["serve", "embedded", "--compare", "none", "--device", "cpu", "--port", str(port), *options]
    command = [sys.executable, "-m", "ruplar", *words, "--ray", cluster.address]
    server = started(*command, cwd=folder, stderr=subprocess.PIPE)
    said = ""
    while f"embedded at http://127.0.0.1:{port}" not in said:
        line = server.stderr.readline()
        assert line, said
        said += line
    yield f"http://127.0.0.1:{port}"
    server.send_signal(signal.SIGTERM)
    rest = server.communicate(timeout=120)[1]
    assert server.returncode == 0, rest


@pytest.fixture
def url(started, cluster, tmp_path):
    """A server with a replica on each node."""
    with served(started, cluster, tmp_path, "--replicas", "2,2") as found:
        yield found


@pytest.mark.long
def test_every_question_has_its_answer_when_a_node_is_killed(cluster, url, offline):
    expected = {question: answer.text for question, answer in zip(QUESTIONS, offline.ask(QUESTIONS), strict=True)}

    with openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=8, timeout=120) as client:

        def asked(question):
            messages = [{"role": "user", "content": question}]
            found = client.chat.completions.create(model="embedded", messages=messages)
            return question, found.choices[0].message.content

        [question, *_] = QUESTIONS
        stream = client.chat.completions.create(
            model="embedded", messages=[{"role": "user", "content": question}], stream=True,
            extra_body={"include_reasoning": True},
        )  # fmt: skip
        deltas = [chunk.choices[0].delta for chunk in stream]
        assert "".join(delta.content or "" for delta in deltas) == expected[question]
        assert len(deltas) > 3, "thought and answer arrive piece by piece"
        assert [model.id for model in client.models.list()] == ["embedded"]

        with ThreadPoolExecutor(8) as threads:
            answers = threads.map(asked, QUESTIONS * 20)
            found = [next(answers) for _ in range(10)]
            cluster.remove_node(next(iter(cluster.worker_nodes)), allow_graceful=False)
            found += answers
        assert found == [(question, expected[question]) for question in QUESTIONS * 20]


@pytest.mark.long
def test_replicas_are_added_under_load(started, cluster, tmp_path):
    from ruplar.cluster.pool import connected

    options = ("--replicas", "1,2", "--slots", "1")
    with served(started, cluster, tmp_path, *options) as url, connected(cluster.address):
        from ray import serve

        def running():
            [deployment] = serve.status().applications["embedded"].deployments.values()
            return deployment.replica_states.get("RUNNING", 0)

        assert running() == 1
        end = time.monotonic() + 240

        def ask_until_two(client):
            while time.monotonic() < end and running() < 2:
                client.completions.create(model="embedded", prompt=QUESTIONS[0])

        client = openai.OpenAI(base_url=f"{url}/v1", api_key="none", timeout=120)
        with client, ThreadPoolExecutor(8) as threads:
            list(threads.map(ask_until_two, [client] * 8))
        assert running() == 2
