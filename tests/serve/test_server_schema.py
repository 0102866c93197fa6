"""Requests drawn from the server's own schema, valid and not: it never fails on one (schemathesis)."""

import httpx
import pytest
from hypothesis import HealthCheck, Phase, given, settings, strategies

CALM = settings(
    max_examples=20, deadline=None, derandomize=True, database=None, phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
CHAT = pytest.param("POST /v1/chat/completions", marks=pytest.mark.slow)
GETS = [f"GET {path}" for path in ("/v1/models/{name}", "/v1/models", "/health", "/metrics", "/api/info")]


@pytest.mark.parametrize("name", [CHAT, "POST /v1/completions", "POST /api/think", *GETS])
def test_nothing_drawn_from_the_schema_breaks_the_server(served, name):
    schemathesis = pytest.importorskip("schemathesis", reason="needs schemathesis. pip install -e '.[dev]'")
    method, path = name.split()
    operation = schemathesis.openapi.from_dict(httpx.get(f"{served.url}/openapi.json").json())[path][method]
    seen, modes = set(), list(schemathesis.GenerationMode)[: 2 if method == "POST" else 1]  # a GET is always valid

    @CALM
    @given(case=strategies.one_of(operation.as_strategy(generation_mode=mode) for mode in modes))
    def run(case):
        body = case.body if isinstance(case.body, dict) else {}
        if isinstance(body.get("model"), str):
            body["model"] = "embedded"  # else nearly all would end at an unknown model
        if isinstance(body.get("messages"), list):  # and the others at the roles of the messages
            body["messages"] = [{"role": "user", "content": f"{body['messages']}"[:100]}]
        seen.add(case.call(base_url=served.url, timeout=60).status_code)

    run()
    assert max(seen) < 500 and seen - {400} and (400 in seen) == (method == "POST")
