"""All replies are stored and their tokens counted; a row without a usable reply does not stop the others."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from ruplar import plugins
from ruplar.data.convert import ByModel, Endpoint, convert, read_prose
from ruplar.data.convert.messages import load_prompt
from ruplar.errors import UserError

TROUBLED = "What is 2 plus 4?"
NULL = {"text": None}
DOWN = {"status": 500, "body": "oops"}


def right_chain(question: str) -> str:
    a, b = (int(word) for word in question.rstrip("?").split() if word.isdigit())
    return f"<<{a}+{b}={a + b}>> #### {a + b}"


def by(server, retries=1, **settings):
    """Two tries a request, a hundredth of a second between them."""
    place = Endpoint(server.url, "some-model", timeout=5.0, retries=retries, backoff=0.01)
    return ByModel(place, load_prompt("arithmetic", plugins.make("domains", "arithmetic")), **settings)


def lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def run(tmp_path):
    """Source and way → the outcome, in out.jsonl."""

    def start(source, way, **options):
        return convert(read_prose(source), tmp_path / "out.jsonl", "arithmetic", way, **options)

    return start


@pytest.mark.parametrize(
    ("said", "usage", "told"),
    [
        (NULL, (100, 10), "content is null"),
        ({"text": ["a", "b"]}, (100, 10), "content is a list"),
        (
            {"body": json.dumps({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 0}})},
            (7, 0),
            "Index",
        ),
        ({"body": '{"choices": [{"mess'}, (0, 0), "JSONDecodeError"),
        ({"body": "[" * 100_000}, (0, 0), "RecursionError"),
        ({"body": "12"}, (0, 0), "TypeError"),
        ({"body": "not gzip", "headers": {"Content-Encoding": "gzip"}}, (0, 0), "DecodingError"),
    ],
    ids=["null", "list", "empty", "cut off", "deep", "number", "gzip"],
)
def test_a_row_with_unusable_replies_is_rejected_and_its_tokens_counted(run, chat_server, sums, said, usage, told):
    server, source = chat_server(lambda question, _: said if question == TROUBLED else right_chain(question)), sums(10)
    found = run(source, by(server))
    assert found.progress.converted == 9 and server.asked[TROUBLED] == 2
    [row] = lines(found.rejected)
    assert (row["problem"], row["reason"]) == (TROUBLED, "the reply cannot be used")
    assert "2 requests failed" in row["detail"] and told in row["detail"]
    # nine replies of 100 and 10 tokens, and two that could not be used
    assert (found.progress.tokens_in, found.progress.tokens_out) == (900 + 2 * usage[0], 90 + 2 * usage[1])
    assert found.progress.uncounted == (0 if usage[0] else 2)
    assert run(source, by(server)).progress == found.progress and server.asked[TROUBLED] == 2, "it is done"


def test_a_reply_with_unreadable_usage_is_still_used(run, chat_server, sums):
    def script(question, times):
        return {"body": json.dumps({"choices": [{"message": {"content": right_chain(question)}}], "usage": [7]})}

    found = run(sums(2), by(chat_server(script)))
    assert (found.progress.converted, found.progress.uncounted) == (2, 2)


def test_an_endpoint_without_usable_replies_stops_the_run(run, chat_server, sums):
    server = chat_server(lambda question, times: {"body": "<html>welcome</html>"})
    with pytest.raises(UserError, match="no usable reply.*welcome.*Check --endpoint"):
        run(sums(60), by(server, retries=0, concurrency=1))
    assert sum(server.asked.values()) == 21


def test_rows_without_a_reply_stop_the_run_unless_they_may_be_rejected(run, chat_server, sums, tmp_path):
    down = {f"What is {n} plus {2 * n}?" for n in (2, 3, 4)}
    server = chat_server(lambda question, _: DOWN if question in down else right_chain(question))
    source = sums(8)
    with pytest.raises(UserError, match="3 of 8 rows have no reply.*HTTP 500: oops.*--set-aside-unanswered to reject"):
        run(source, by(server, concurrency=4))
    assert not (tmp_path / "out.jsonl").exists()
    # only such rows are left, more of them in a row than are asked at once: the run ends all the same
    found = run(source, by(server, concurrency=1, set_aside_unanswered=True))
    assert found.progress.converted == 5 and found.progress.rejected == {"no reply": 3}
    assert [(row["problem"] in down, "HTTP 500: oops" in row["detail"]) for row in lines(found.rejected)] == [
        (True, True)
    ] * 3
    assert len(lines(found.output)) == 5
    down.clear()
    assert run(source, by(server), retry_rejected=True).progress.converted == 8
    assert server.asked["What is 1 plus 2?"] == 1, "what is done is not asked again"


def test_an_endpoint_that_never_answered_sets_no_row_aside(run, chat_server, sums):
    server = chat_server(lambda question, times: DOWN)
    with pytest.raises(UserError, match="does not respond.*0 of 50 rows"):
        run(sums(50), by(server, concurrency=2, set_aside_unanswered=True))


def test_a_first_reply_is_not_paid_for_again_when_its_correction_got_none(run, chat_server, sums):
    broken = True

    def script(question, times):
        if question != TROUBLED:
            return right_chain(question)
        return "<<2+4=7>> #### 7" if times == 1 else DOWN if broken else right_chain(question)

    server, source = chat_server(script), sums(3)
    with pytest.raises(UserError, match="1 of 3 rows have no reply"):
        run(source, by(server))
    broken, before = False, len(server.bodies)
    found = run(source, by(server))
    [asked] = server.bodies[before:]
    assert [m["role"] for m in asked["messages"]] == ["system", "user", "assistant", "user"]
    assert (
        asked["messages"][2]["content"] == "<<2+4=7>> #### 7"
        and "answers 7, marked 6" in asked["messages"][3]["content"]
    )
    # four replies in all: one of each row, and the wrong one
    assert found.progress.converted == 3 and (found.progress.tokens_in, found.progress.tokens_out) == (400, 40)


def test_a_first_reply_outlives_setting_its_row_aside(run, chat_server, sums):
    def script(question, times):
        if question != TROUBLED:
            return right_chain(question)
        return "<<2+4=7>> #### 7" if times == 1 else DOWN if times < 4 else right_chain(question)

    server, source = chat_server(script), sums(3)
    assert run(source, by(server, set_aside_unanswered=True)).progress.rejected == {"no reply": 1}
    found = run(source, by(server), retry_rejected=True)
    assert found.progress.converted == 3 and server.asked[TROUBLED] == 4 and found.progress.tokens_in == 400
    assert server.bodies[-1]["messages"][2]["content"] == "<<2+4=7>> #### 7"


def test_the_attempts_of_all_runs_together_are_no_more_than_allowed(run, chat_server, sums):
    server = chat_server(
        lambda question, times: DOWN if times in (2, 3) else "<<1+2=4>>" if times == 1 else "<<1+2=5>>"
    )
    with pytest.raises(UserError, match="have no reply"):
        run(sums(1), by(server))
    found = run(sums(1), by(server))
    [row] = lines(found.rejected)
    assert row["reply"] == "<<1+2=5>>" and sum(server.asked.values()) == 4 and found.progress.tokens_in == 200


def test_what_was_used_never_falls_when_rejected_rows_are_tried_again(run, chat_server, sums, tmp_path):
    server = chat_server(
        lambda question, times: "no" if question == TROUBLED and times <= 2 else right_chain(question)
    )
    source = sums(3)
    # row 2 is asked twice in vain: 2 + 2 replies; then once more
    assert run(source, by(server)).progress.tokens_in == 400
    assert run(source, by(server), retry_rejected=True).progress.tokens_in == 500
    assert run(source, by(server)).progress.cost(2, 8) == pytest.approx((500 * 2 + 50 * 8) / 1e6)
    replies = [line for line in lines(tmp_path / "out.jsonl.journal")[1:] if "reply" in line]
    assert [line["reply"] for line in replies].count("no") == 2 and len(replies) == 5, "every reply is on the disk"


def test_what_an_endpoint_says_with_half_a_character_is_written_down(run, chat_server, sums):
    def script(question, times):
        body = '{"error": {"message": "too \\ud83d long"}}'
        return {"status": 400, "body": body} if question == TROUBLED else right_chain(question)

    [row] = lines(run(sums(3), by(chat_server(script), concurrency=1)).rejected)
    assert row["detail"] == "HTTP 400: too ? long"


def test_the_command_finishes_without_unanswered_rows_when_told_so(chat_server, sums, tmp_path):
    from ruplar.cli.verbs import app

    server = chat_server(lambda question, _: DOWN if question == TROUBLED else right_chain(question))
    typed = ["data", "convert", str(sums(4)), str(tmp_path / "out.jsonl")]
    llm = ["--by", "llm", "--endpoint", server.url, "--model", "m", "--retries", "0", "--json"]
    stopped = CliRunner().invoke(app, [*typed, *llm])
    assert isinstance(stopped.exception, UserError) and "1 of 4 rows have no reply" in str(stopped.exception)
    done = CliRunner().invoke(app, [*typed, *llm, "--set-aside-unanswered"])
    assert done.exit_code == 0 and json.loads(done.stdout)["rejected"] == {"no reply": 1}
    refused = CliRunner().invoke(app, [*typed, "--set-aside-unanswered"])
    assert "is for --by llm" in str(refused.exception)
