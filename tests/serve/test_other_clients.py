"""LangChain and LiteLLM ask a server with `--messages last`, with a system message and as a stream; run where they are installed."""

import pytest
from serve_toys import APPLES, running

pytestmark = pytest.mark.long  # their imports


@pytest.fixture(scope="module")
def url():
    with running(messages="last", timeout=60) as found:
        yield f"{found.url}/v1"


def test_langchain(url):
    module = pytest.importorskip("langchain_openai", reason="pip install langchain-openai to run it")
    turns = [("system", "Be brief."), ("human", "Hi"), ("ai", "Hello"), ("human", APPLES)]
    chat = module.ChatOpenAI(model="embedded", base_url=url, api_key="none", stream_usage=True)
    whole = chat.invoke(turns)
    assert whole.content == "10" and whole.usage_metadata["output_token_details"]["reasoning"] == 2
    pieces = list(chat.stream(turns))
    assert "".join(piece.content for piece in pieces) == "10"
    assert [piece.usage_metadata for piece in pieces if piece.usage_metadata] == [whole.usage_metadata]
    assert [reply.content for reply in chat.batch([APPLES] * 3)] == ["10"] * 3
    assert module.OpenAI(model="embedded", base_url=url, api_key="none").invoke(APPLES) == "10"


def test_litellm(url, monkeypatch):
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # or it asks the network for prices
    litellm = pytest.importorskip("litellm", reason="pip install litellm to run it")
    turns = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": APPLES}]
    sent = {"model": "openai/embedded", "api_base": url, "api_key": "none", "messages": turns}
    found = litellm.completion(**sent, extra_body={"include_reasoning": True}).choices[0].message
    assert (found.content, found.reasoning_content) == ("10", "12 → 10")
    pieces = [piece.choices[0].delta.content or "" for piece in litellm.completion(**sent, stream=True)]
    assert "".join(pieces) == "10"
