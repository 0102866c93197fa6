"""One server for all tests that leave it as they found it, and the offline engine its answers are held to."""

import pytest
from serve_toys import running


@pytest.fixture(scope="session")
def served():
    """The embedded model with its text-CoT partner, no key, the usual limits."""
    with running(compare="embedded:cot", timeout=60) as found:
        yield found


@pytest.fixture(scope="session")
def offline():
    """The same model asked in Python."""
    from ruplar.reasoner import LatentReasoner

    return LatentReasoner.from_pretrained("embedded")


@pytest.fixture
def client(served):
    """OpenAI's own client."""
    import openai

    with openai.OpenAI(base_url=f"{served.url}/v1", api_key="none", max_retries=0, timeout=60) as found:
        yield found
