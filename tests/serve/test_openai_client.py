"""OpenAI's own Python client works against a real server, and what it gets is what the offline engine says."""

import openai
import pytest
from cases import cases
from serve_toys import APPLES, QUESTIONS, running

from ruplar.engine.sampling import Decoding

pytestmark = pytest.mark.slow


def user(text):
    return [{"role": "user", "content": text}]


def ask(client, text=APPLES, **more):
    return client.chat.completions.create(model="embedded", messages=user(text), **more)


def offline_samples(offline, question, n, decoding):
    """n samples of one question through the offline engine, as text."""
    return [answer.text for answer in offline.sample([question], n, decoding=decoding)[0]]


def test_chat_answers_what_the_offline_engine_answers(client, offline):
    wanted = offline.ask(QUESTIONS)
    for question, answer in zip(QUESTIONS, wanted, strict=True):
        found = ask(client, question)
        assert found.choices[0].message.content == answer.text
        assert found.choices[0].finish_reason == "stop"
        details = found.usage.completion_tokens_details
        assert details.reasoning_tokens == answer.latent_count > 0
        assert found.usage.completion_tokens == answer.latent_count + answer.answer_tokens
        assert found.usage.prompt_tokens == len(offline.model.backbone.prompt(question).ids)
    assert wanted[0].text == "10"


def test_thoughts_are_shown_on_request_only(client, offline):
    [answer] = offline.ask([APPLES], return_latents=True)
    plain = ask(client).choices[0].message
    assert not hasattr(plain, "reasoning") and not hasattr(plain, "reasoning_details")
    shown = ask(client, extra_body={"include_reasoning": True}).choices[0].message
    assert shown.reasoning == " → ".join(latent.tokens[0] for latent in answer.latents) == "12 → 10"
    assert [d["tokens"] for d in shown.reasoning_details] == [list(z.tokens[:10]) for z in answer.latents]
    for detail, latent in zip(shown.reasoning_details, answer.latents, strict=True):
        assert detail["probs"] == pytest.approx(latent.probs[:10], abs=1e-5)
        assert detail["entropy"] == pytest.approx(latent.entropy, abs=1e-4)
        assert detail["halt"] == pytest.approx(latent.halt, abs=1e-5)


def test_a_text_model_shows_its_chain(client, served):
    shown = {"include_reasoning": True}
    found = client.chat.completions.create(model="embedded:cot", messages=user(APPLES), extra_body=shown)
    assert found.choices[0].message.reasoning == "<<3*4=12>> <<12-2=10>>"
    assert found.choices[0].message.content == "10"
    assert found.usage.completion_tokens_details.reasoning_tokens == 14  # << 3 * 4 = 12 >>, twice


def test_a_stream_holds_the_same_as_the_whole_answer(client):
    whole = ask(client, extra_body={"include_reasoning": True})
    how = {"stream_options": {"include_usage": True}, "extra_body": {"include_reasoning": True}}
    chunks = list(ask(client, stream=True, **how))
    deltas = [c.choices[0].delta for c in chunks if c.choices]
    assert deltas[0].role == "assistant"
    assert "".join(d.content or "" for d in deltas) == whole.choices[0].message.content
    assert "".join(getattr(d, "reasoning", "") for d in deltas) == whole.choices[0].message.reasoning
    details = [detail for d in deltas for detail in getattr(d, "reasoning_details", [])]
    assert details == whole.choices[0].message.reasoning_details
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == "stop"
    assert chunks[-1].usage == whole.usage and not chunks[-1].choices
    assert len({c.id for c in chunks}) == 1
    # a soft token comes before the answer is known, not with it
    assert len([d for d in deltas if getattr(d, "reasoning_details", None)]) == 2


def test_seeds_reproduce_and_samples_differ(client, offline):
    decoding = Decoding(temperature=2.0, top_p=0.99, seed=7)
    hot = {"n": 8, "temperature": 2.0, "top_p": 0.99, "seed": 7, "extra_body": {"noise": 2.0}}
    first, again = ask(client, **hot), ask(client, **hot)
    texts = [c.message.content for c in first.choices]
    assert texts == [c.message.content for c in again.choices]
    assert [c.index for c in first.choices] == list(range(8))
    assert len(set(texts)) > 1
    other = ask(client, **(hot | {"seed": 8}))
    assert [c.message.content for c in other.choices] != texts
    noisy = Decoding(temperature=2.0, top_p=0.99, seed=7, noise=2.0)
    assert texts == offline_samples(offline, APPLES, 8, noisy)
    calm = ask(client, n=2, temperature=2.0, top_p=0.99, seed=7)
    assert [c.message.content for c in calm.choices] == offline_samples(offline, APPLES, 2, decoding)


def test_an_answer_ends_before_a_stop_text(client, served):
    chain = {"model": "embedded", "prompt": APPLES}
    assert client.completions.create(**chain).choices[0].text == "10"
    cut = client.completions.create(**chain, stop=["0"])
    assert cut.choices[0].text == "1" and cut.choices[0].finish_reason == "stop"
    assert client.completions.create(**chain, stop="10").choices[0].text == ""
    streamed = list(client.completions.create(**chain, stop=["0"], stream=True))
    assert "".join(c.choices[0].text for c in streamed) == "1"
    assert served.quiet()


def test_max_tokens_cuts_the_answer(client):
    for field in ("max_tokens", "max_completion_tokens"):
        found = ask(client, **{field: 1})
        assert found.choices[0].finish_reason == "length", "the answer's second token is its end"
        assert found.choices[0].message.content == "10"


def test_several_prompts_are_answered_in_their_order(client, offline, served, monkeypatch):
    keys, submit = [], served.scheduler.submit_samples
    record = lambda prompt, *rest: (keys.append(rest[0]), submit(prompt, *rest))[1]  # noqa: E731
    monkeypatch.setattr(served.scheduler, "submit_samples", record)
    wanted = [a.text for a in offline.ask(QUESTIONS)]
    found = client.completions.create(model="embedded", prompt=QUESTIONS, n=2)
    assert [c.text for c in found.choices] == [text for text in wanted for _ in range(2)]
    assert found.usage.prompt_tokens == sum(len(offline.model.backbone.prompt(q).ids) for q in QUESTIONS)
    client.completions.create(model="embedded", prompt=[APPLES, APPLES], seed=7)
    # equal prompts have different samples, except under a seed
    assert keys == [[(place, 0), (place, 1)] for place in range(4)] + [[(0, 0)]] * 2


def test_a_halt_threshold_changes_how_long_it_thinks(client, offline):
    short = ask(client, extra_body={"halt_threshold": 1e-5})
    usual = ask(client)
    wanted = offline.generate([APPLES], decoding=Decoding(halt_threshold=1e-5))
    assert short.usage.completion_tokens_details.reasoning_tokens == wanted[0].latent_count
    assert wanted[0].latent_count < usual.usage.completion_tokens_details.reasoning_tokens


def test_models_are_listed_and_unknown_ones_not_found(client):
    assert [m.id for m in client.models.list()] == ["embedded", "embedded:cot"]
    assert client.models.retrieve("embedded").id == "embedded"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("gpt-9")
    with pytest.raises(openai.NotFoundError) as caught:
        client.chat.completions.create(model="embeded", messages=user(APPLES))
    assert "Did you mean 'embedded'?" in caught.value.body["message"]
    assert caught.value.body["code"] == "model_not_found"


@pytest.mark.parametrize(("more", "words"), cases(__file__, "refused"))
def test_what_cannot_be_honoured_is_refused_by_name(client, more, words):
    with pytest.raises(openai.BadRequestError) as caught:
        ask(client, **more)
    assert words in caught.value.body["message"]
    assert caught.value.body["type"] == "invalid_request_error" and caught.value.body["param"]


def test_messages_the_model_was_not_trained_on_are_refused_in_words(client):
    for messages, words in cases(__file__, "messages"):
        with pytest.raises(openai.BadRequestError) as caught:
            client.chat.completions.create(model="embedded", messages=messages)
        assert words in caught.value.body["message"]
    parts = [{"type": "text", "text": APPLES}]
    found = client.chat.completions.create(model="embedded", messages=[{"role": "user", "content": parts}])
    assert found.choices[0].message.content == "10"


def test_the_last_user_message_is_answered_with_a_warning():
    """As LangChain, LiteLLM, Open WebUI and lm-eval send them: a system message, earlier turns, fields of their own."""
    system = {"role": "system", "content": "You are a helpful assistant."}
    turns = [*user("Hello"), {"role": "assistant", "content": "Hi", "refusal": None, "tool_calls": None}]
    with running(messages="last") as served:
        client = openai.OpenAI(base_url=f"{served.url}/v1", api_key="x", max_retries=0)

        def send(messages, **more):
            return client.chat.completions.with_raw_response.create(model="embedded", messages=messages, **more)

        for messages, left_out in [
            ([system, *user(APPLES)], "system."),
            ([system, *turns, *user(APPLES)], "system, user, assistant."),
        ]:
            raw = send(messages, extra_body={"chat_id": "7"})
            found = raw.parse()
            assert found.choices[0].message.content == "10"
            assert left_out in found.warning and "chat_id" in found.warning
            assert raw.headers["x-ruplar-warning"] == found.warning
        streamed = send([system, *user(APPLES)], stream=True)
        assert "system" in streamed.headers["x-ruplar-warning"]
        chunks = list(streamed.parse())
        assert "".join(c.choices[0].delta.content or "" for c in chunks) == "10" and "system" in chunks[0].warning
        plain = send(user(APPLES))
        assert "x-ruplar-warning" not in plain.headers and not hasattr(plain.parse(), "warning")
        with pytest.raises(openai.BadRequestError, match="none is from the user"):
            send([system])


def test_unknown_fields_are_ignored_with_a_warning(client):
    found = ask(client, extra_body={"chat_id": "7", "ünknown": 1, "a\r\nb: \0": 2})
    assert found.choices[0].message.content == "10"
    assert found.warning == "Ignored unknown fields: chat_id, ?nknown, a??b: ?."
