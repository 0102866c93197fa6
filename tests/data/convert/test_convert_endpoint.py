"""Conversion by a model, against a real server that replays good, malformed, slow, 429 and failing replies."""

from __future__ import annotations

import json
import time

import pytest

from ruplar import plugins
from ruplar.data.convert import ByModel, Endpoint, convert, read_prose
from ruplar.data.convert.endpoint import _retry_after
from ruplar.data.convert.messages import FOLDER, Prompt, chain_in, load_prompt
from ruplar.errors import UserError


def right_chain(question: str) -> str:
    a, b = (int(word) for word in question.rstrip("?").split() if word.isdigit())
    return f"<<{a}+{b}={a + b}>> #### {a + b}"


def by(server, domain="arithmetic", **settings):
    """A patient model in a hurry: waits are a hundredth of a second."""
    patience = {
        "timeout": 5.0,
        "retries": 3,
        "backoff": 0.01,
        **{k: settings.pop(k) for k in list(settings) if k in PATIENCE},
    }
    prompt = load_prompt(domain, plugins.make("domains", domain))
    return ByModel(Endpoint(server.url, "some-model", "secret", **patience), prompt, **settings)


PATIENCE = {"timeout", "retries", "backoff", "max_tokens"}


def lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def run(tmp_path, source, way, **options):
    return convert(read_prose(source), tmp_path / "out.jsonl", "arithmetic", way, **options)


def test_good_replies_become_rows_in_the_order_of_the_input(tmp_path, chat_server, sums):
    server = chat_server(
        lambda question, times: {"text": right_chain(question), "delay": 0.02 if "3 plus" in question else 0}
    )
    found = run(tmp_path, sums(20), by(server, concurrency=4))
    rows = lines(tmp_path / "out.jsonl")
    assert [row["answer"] for row in rows] == [str(3 * n) for n in range(1, 21)]
    assert rows[0] == {"problem": "What is 1 plus 2?", "solution": "<<1+2=3>>", "answer": "3"}
    assert lines(found.rejected) == [] and set(server.asked.values()) == {1}
    assert 1 < server.most_flying <= 4, "requests are in flight together, but no more than allowed"
    # 20 replies of 100 and 10 tokens; at 2 and 8 a million that is 0.004 + 0.0016
    assert (found.progress.tokens_in, found.progress.tokens_out) == (2000, 200)
    assert found.progress.cost(2, 8) == pytest.approx(0.0056)


def test_the_request_has_model_prompt_question_and_key_but_not_the_answer(tmp_path, chat_server, sums):
    server = chat_server(lambda question, times: right_chain(question))
    run(tmp_path, sums(1), by(server))
    [body] = server.bodies
    assert body["model"] == "some-model" and body["temperature"] == 0 and body["max_tokens"] == 1024
    system, user = body["messages"]
    assert "<<20*1.20=24>> <<30-24=6>> #### 6" in system["content"]
    assert user == {"role": "user", "content": "Question: What is 1 plus 2?"}
    assert server.keys == ["Bearer secret"]
    assert "secret" not in (tmp_path / "out.jsonl.journal").read_text()


def test_a_wrong_chain_is_requested_again_with_its_error(tmp_path, chat_server, sums):
    server = chat_server(lambda question, times: "<<1+2=4>> #### 4" if times == 1 else right_chain(question))
    found = run(tmp_path, sums(1), by(server))
    assert found.progress.converted == 1 and server.asked["What is 1 plus 2?"] == 2
    again = server.bodies[1]["messages"]
    assert [m["role"] for m in again] == ["system", "user", "assistant", "user"]
    assert again[2]["content"] == "<<1+2=4>> #### 4" and "answers 4, marked 3" in again[3]["content"]


REPLIES = {
    "I would rather not.": "no step",
    "<<1+2=4>>": "a step is wrong",
    "<<one+two=3>>": "a step cannot be checked",
    "<<1+2>>": "a step cannot be checked",
    "<<1+1=2>>": "the last result is not the marked answer",
    "<<1+2=3>> #### 4": "the last result is not the marked answer",
    "": "no step",
    "half \ud83d": "no step",
}


@pytest.mark.parametrize(("reply", "reason"), REPLIES.items())
def test_a_wrong_reply_is_rejected_with_its_reason_and_text(tmp_path, chat_server, sums, reply, reason):
    server = chat_server(lambda question, times: reply)
    found = run(tmp_path, sums(1), by(server, attempts=1))
    [row] = lines(found.rejected)
    assert (row["reason"], row["reply"], row["row"]) == (reason, reply.replace("\ud83d", "?"), "sums.jsonl:1") and row[
        "detail"
    ]
    assert lines(tmp_path / "out.jsonl") == [] and found.progress.rejected == {reason: 1}


def test_transient_failures_are_retried(tmp_path, chat_server, sums):
    failures = [
        {"status": 500, "body": "oops"},
        {"status": 503, "body": json.dumps({"error": {"message": "overloaded"}})},
        {"body": "<html>not json</html>"},
    ]
    server = chat_server(lambda question, times: failures[times - 1] if times <= 3 else right_chain(question))
    found = run(tmp_path, sums(3), by(server))
    assert found.progress.converted == 3 and set(server.asked.values()) == {4}


def test_a_slow_reply_is_requested_again(tmp_path, chat_server, sums):
    server = chat_server(lambda question, times: {"text": right_chain(question), "delay": 1.0 if times == 1 else 0})
    started = time.monotonic()
    found = run(tmp_path, sums(1), by(server, timeout=0.15))
    assert found.progress.converted == 1 and server.asked["What is 1 plus 2?"] == 2
    assert time.monotonic() - started > 0.15


def test_all_workers_respect_retry_after(tmp_path, chat_server, sums):
    seen = []

    def script(question, times):
        seen.append((time.monotonic(), question))
        if len(seen) == 1:
            return {"status": 429, "headers": {"Retry-After": "0.4"}, "body": "{}"}
        return right_chain(question)

    found = run(tmp_path, sums(4), by(chat_server(script), concurrency=1))
    assert found.progress.converted == 4
    # the back-off alone would be a hundredth of a second
    assert all(at - seen[0][0] >= 0.39 for at, _ in seen[1:])


def test_retry_after_is_read_as_seconds_or_as_a_date():
    import email.utils

    assert _retry_after("2.5") == 2.5 and _retry_after(None) == 0 and _retry_after("soon") == 0
    assert 3 < _retry_after(email.utils.formatdate(time.time() + 5, usegmt=True)) <= 5
    assert _retry_after(email.utils.formatdate(time.time() - 5, usegmt=True)) == 0


def test_rows_without_a_reply_are_left_for_the_next_run(tmp_path, chat_server, sums):
    broken = True

    def script(question, times):
        return {"status": 500, "body": "oops"} if broken and "2 plus" in question else right_chain(question)

    server, source = chat_server(script), sums(5)
    with pytest.raises(UserError, match=r"1 of 5 rows have no reply.*HTTP 500: oops.*run the same command again"):
        run(tmp_path, source, by(server, retries=1))
    assert not (tmp_path / "out.jsonl").exists()
    broken = False
    assert run(tmp_path, source, by(server)).progress.converted == 5
    assert server.asked["What is 1 plus 2?"] == 1, "what is done is not asked again"


def test_an_endpoint_that_always_fails_stops_the_run_early(tmp_path, chat_server, sums):
    server = chat_server(lambda question, times: {"status": 503, "body": "down"})
    with pytest.raises(UserError, match="does not respond.*503"):
        run(tmp_path, sums(200), by(server, concurrency=2, retries=1))
    assert sum(server.asked.values()) < 20


def test_an_endpoint_that_cannot_be_reached_is_an_error(tmp_path, sums):
    class Nowhere:
        url = "http://127.0.0.1:9/v1"

    with pytest.raises(UserError, match="does not respond|have no reply"):
        run(tmp_path, sums(3), by(Nowhere, retries=1))


def test_a_wrong_key_is_reported_at_once(tmp_path, chat_server, sums):
    body = json.dumps({"error": {"message": "invalid api key"}})
    server = chat_server(lambda question, times: {"status": 401, "body": body})
    with pytest.raises(UserError, match="rejected the request: HTTP 401: invalid api key.*--api-key"):
        run(tmp_path, sums(50), by(server, concurrency=1))
    assert sum(server.asked.values()) == 1


def test_a_row_that_the_endpoint_rejects_is_rejected(tmp_path, chat_server, sums):
    def script(question, times):
        return {"status": 400, "body": "too long"} if "3 plus" in question else right_chain(question)

    found = run(tmp_path, sums(4), by(chat_server(script), concurrency=1))
    [row] = lines(found.rejected)
    assert (row["reason"], row["detail"]) == ("the endpoint rejected it", "HTTP 400: too long")
    assert found.progress.converted == 3


def test_rejected_rows_can_be_requested_again(tmp_path, chat_server, sums):
    server = chat_server(
        lambda question, times: "no" if times == 1 and "2 plus" in question else right_chain(question)
    )
    source = sums(3)
    assert run(tmp_path, source, by(server, attempts=1)).progress.converted == 2
    assert run(tmp_path, source, by(server, attempts=1)).progress.converted == 2
    found = run(tmp_path, source, by(server, attempts=1), retry_rejected=True)
    assert found.progress.converted == 3 and lines(found.rejected) == [] and len(lines(tmp_path / "out.jsonl")) == 3
    assert server.asked == {"What is 1 plus 2?": 1, "What is 2 plus 4?": 2, "What is 3 plus 6?": 1}


def test_replies_without_usage_are_counted(tmp_path, chat_server, sums):
    def script(question, times):
        return {"body": json.dumps({"choices": [{"message": {"content": right_chain(question)}}]})}

    found = run(tmp_path, sums(2), by(chat_server(script)))
    assert (found.progress.uncounted, found.progress.tokens_in) == (2, 0)


def test_thoughts_and_code_fences_are_removed():
    assert chain_in("<think>3 and 4 ####</think>\n```text\n<<3+4=7>> #### 7\n```") == ("<<3+4=7>>", "7")
    assert chain_in("<<3+4=7>>") == ("<<3+4=7>>", "")


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.txt")), ids=lambda f: f.stem)
def test_every_packaged_prompt_has_a_right_example(file):
    from ruplar.data.convert import verify

    domain = "arithmetic" if file.stem == "general" else file.stem
    rule = plugins.make("domains", domain)
    prompt = load_prompt(domain, rule, file)
    assert "{" not in prompt.system
    [shown] = [line for line in prompt.system.splitlines() if " #### " in line and not line.startswith("Reply")]
    chain, stated = chain_in(shown)
    asks = next((line for line in prompt.system.splitlines() if line.startswith("Question: ")), "")
    assert verify(chain, asks.removeprefix("Question: "), stated, rule)
    told = prompt.messages("Why {reasoning}?", "")[1]["content"]
    assert told == "Question: Why {reasoning}?", "no worked solution, and the question is not filled in again"
    assert prompt.messages("Why?", "So.")[1]["content"] == "Question: Why?\nWorked solution: So."


def test_a_prompt_file_without_its_parts_is_refused(tmp_path):
    rule = plugins.make("domains", "arithmetic")
    (tmp_path / "mine.txt").write_text("Do it.\n{question}", encoding="utf-8")
    with pytest.raises(UserError, match="two parts"):
        load_prompt("arithmetic", rule, tmp_path / "mine.txt")
    with pytest.raises(UserError, match="cannot read"):
        load_prompt("arithmetic", rule, tmp_path / "none.txt")
    (tmp_path / "mine.txt").write_text("Do it.\n---\n{question}", encoding="utf-8")
    assert load_prompt("arithmetic", rule, tmp_path / "mine.txt") == Prompt("Do it.", "{question}")
