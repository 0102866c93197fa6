"""Requests drawn from the server's own schema, valid and not: it never fails on one (schemathesis)."""

from __future__ import annotations

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error

pytestmark = pytest.mark.slow

CALM = settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


def operations(served):
    return schemathesis.openapi.from_dict(httpx.get(f"{served.url}/openapi.json").json())


BODIES = ["POST /v1/chat/completions", "POST /v1/completions", "POST /api/think"]
GETS = ["GET /v1/models/{name}", "GET /v1/models", "GET /health", "GET /metrics", "GET /api/info"]


@pytest.mark.parametrize(
    ("name", "mode"), [*((b, m) for b in BODIES for m in ("positive", "negative")), *((g, "positive") for g in GETS)]
)
def test_nothing_drawn_from_the_schema_breaks_the_server(served, name, mode):
    method, path = name.split()
    operation = operations(served)[path][method]
    kind = getattr(schemathesis.GenerationMode, mode.upper())
    seen = []

    @CALM
    @given(case=operation.as_strategy(generation_mode=kind))
    def run(case):
        if mode == "positive" and isinstance(case.body, dict) and "model" in case.body:
            case.body["model"] = "embedded"  # else nearly all would end at an unknown model
        response = case.call(base_url=served.url, timeout=60)
        case.validate_response(response, checks=[not_a_server_error])
        seen.append(response.status_code)

    run()
    assert seen and max(seen) < 500


def test_an_error_has_the_shape_the_schema_promises(served):
    body = {"model": "embedded", "prompt": "What is 3 plus 4?", "n": 0}
    case = operations(served)["/v1/completions"]["POST"].Case(body=body, media_type="application/json")
    response = case.call(base_url=served.url)
    assert response.status_code == 400
    case.validate_response(response)
