"""Requests drawn from the server's own schema, valid and not: it never fails on one (schemathesis)."""

import httpx
import pytest
from hypothesis import HealthCheck, Phase, given, settings

schemathesis = pytest.importorskip("schemathesis", reason="needs schemathesis. pip install -e '.[dev]'")
BODIES = ["POST /v1/chat/completions", "POST /v1/completions", "POST /api/think"]
GETS = ["GET /v1/models/{name}", "GET /v1/models", "GET /health", "GET /metrics", "GET /api/info"]


@pytest.mark.parametrize("mode", ["positive", "negative"])
@pytest.mark.parametrize("name", BODIES + GETS)
def test_nothing_drawn_from_the_schema_breaks_the_server(served, name, mode):
    method, path = name.split()
    schema = schemathesis.openapi.from_dict(httpx.get(f"{served.url}/openapi.json").json())
    kind, seen = schemathesis.GenerationMode[mode.upper()], []

    @settings(
        max_examples=8,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=schema[path][method].as_strategy(generation_mode=kind))
    def run(case):
        if mode == "positive" and isinstance(case.body, dict) and "model" in case.body:
            case.body["model"] = "embedded"  # else nearly all would end at an unknown model
        seen.append(case.call(base_url=served.url, timeout=60).status_code)

    run()
    print("SEEN", name, mode, seen)
    assert seen and max(seen) < 500
