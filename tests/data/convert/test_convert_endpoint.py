"""Conversion by a model, against a real server that gives good, malformed and failing replies."""

import re
from types import SimpleNamespace

import pytest
from cases import cases

from ruplar import plugins
from ruplar.data.convert.endpoint import FOLDER, Prompt, chain_in, load_prompt
from ruplar.data.convert.rules import verify
from ruplar.errors import UserError

TROUBLED = "What is 2 plus 4?"


def right_chain(question: str, times: int = 1) -> str:
    a, b = (int(word) for word in question.rstrip("?").split() if word.isdigit())
    return f"<<{a}+{b}={a + b}>> #### {a + b}"


def troubled(*replies):
    """Script: these replies for one question in turn, the last one again and again; right chains for the others."""
    return lambda question, times: (
        replies[min(times, len(replies)) - 1] if question == TROUBLED else right_chain(question)
    )


def test_good_replies_become_rows_in_the_order_of_the_input(run, chat_server, sums, kept, rejected):
    server = chat_server(
        lambda question, times: {"text": right_chain(question), "delay": 0.02 if "3 plus" in question else 0}
    )
    run(sums(20), server, concurrency=4)
    assert [row["answer"] for row in kept()] == [str(3 * n) for n in range(1, 21)]
    assert kept()[0] == {"problem": "What is 1 plus 2?", "solution": "<<1+2=3>>", "answer": "3"}
    assert rejected() == [] and set(server.asked.values()) == {1}
    assert 1 < server.most_flying <= 4, "requests are in flight together, but no more than allowed"


def test_the_request_has_model_prompt_question_and_key_but_not_the_answer(run, tmp_path, chat_server, sums):
    server = chat_server(right_chain)
    run(sums(1), server)
    [body] = server.bodies
    assert body["model"] == "m" and body["temperature"] == 0 and body["max_tokens"] == 1024
    system, user = body["messages"]
    assert "<<20*1.20=24>> <<30-24=6>> #### 6" in system["content"]
    assert user == {"role": "user", "content": "Question: What is 1 plus 2?"}
    assert server.keys == ["Bearer secret"]
    assert "secret" not in (tmp_path / "out.jsonl.journal").read_text()


def test_a_wrong_chain_is_requested_again_with_its_error(run, chat_server, sums):
    server = chat_server(lambda question, times: "<<1+2=4>> #### 4" if times == 1 else right_chain(question))
    assert run(sums(1), server).converted == 1 and server.asked["What is 1 plus 2?"] == 2
    again = server.bodies[1]["messages"]
    assert [m["role"] for m in again] == ["system", "user", "assistant", "user"]
    assert again[2]["content"] == "<<1+2=4>> #### 4" and "answers 4, marked 3" in again[3]["content"]


@pytest.mark.parametrize(("reply", "reason"), cases(__file__, "wrong_replies").items())
def test_a_wrong_reply_is_rejected_with_its_reason_and_text(run, chat_server, sums, kept, rejected, reply, reason):
    found = run(sums(1), chat_server(lambda question, times: reply), attempts=1)
    [row] = rejected()
    shown = reply.replace("\ud83d", "?")
    assert (row["reason"], row["reply"], row["row"]) == (reason, shown, "sums.jsonl:1") and row["detail"]
    assert kept() == [] and found.rejected == {reason: 1}


@pytest.mark.parametrize(("said", "told"), cases(__file__, "no_replies"))
def test_a_row_without_a_usable_reply_is_rejected_and_requested_by_the_next_run(
    run, chat_server, sums, rejected, said, told
):
    said = {key: "[" * 100_000 if value == "DEEP" else value for key, value in said.items()}
    server, source = chat_server(troubled(said, said, right_chain(TROUBLED))), sums(10)
    assert run(source, server, concurrency=1).converted == 9
    [row] = rejected()
    assert (row["problem"], row["reason"]) == (TROUBLED, "no usable reply") and re.search(told, row["detail"])
    assert [run(source, server).converted for _ in range(2)] == [9, 10] and set(server.asked.values()) == {1, 3}


@pytest.mark.slow
@pytest.mark.parametrize(("said", "told"), cases(__file__, "unusable"))
@pytest.mark.parametrize("good", [0, 9])
def test_an_endpoint_that_cannot_be_used_stops_the_run_early(run, chat_server, sums, said, told, good):
    server = chat_server(lambda question, times: right_chain(question) if len(server.bodies) <= good else said)
    with pytest.raises(UserError, match=told):
        run(sums(200), server, concurrency=2)
    assert sum(server.asked.values()) < 20
    server.script = right_chain
    assert run(sums(200), server).converted == 200


def test_an_endpoint_that_cannot_be_reached_is_an_error(run, sums):
    with pytest.raises(UserError, match="returns no usable reply"):
        run(sums(3), SimpleNamespace(url="http://127.0.0.1:9/v1"))


def test_rejected_rows_can_be_requested_again_and_every_final_reply_stays_on_disk(
    run, chat_server, sums, rejected, journal
):
    server, source = chat_server(troubled("no", "never", right_chain(TROUBLED))), sums(3)
    run(source, server)
    assert len(rejected()) == 1 and run(source, server).converted == 2
    assert run(source, server, retry_rejected=True).converted == 3 and rejected() == []
    assert server.asked == {"What is 1 plus 2?": 1, TROUBLED: 3, "What is 3 plus 6?": 1}
    assert "never" in [line["reply"] for line in journal()] and len(journal()) == 4


def test_an_answer_with_a_unit_is_compared_as_in_training(run, chat_server, tmp_path):
    (tmp_path / "a.jsonl").write_text('{"question": "3 bags of 4?", "answer": "12 apples"}', encoding="utf-8")
    assert run(tmp_path / "a.jsonl", chat_server(lambda question, times: "<<3*4=12>> #### 12")).converted == 1


def test_thoughts_and_code_fences_are_removed():
    assert chain_in("<think>3 and 4 ####</think>\n```text\n<<3+4=7>> #### 7\n```") == ("<<3+4=7>>", "7")
    assert chain_in("<<3+4=7>>") == ("<<3+4=7>>", "")


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.txt")), ids=lambda f: f.stem)
def test_every_packaged_prompt_has_a_right_example(file):
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
