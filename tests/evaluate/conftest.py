"""A random model that answers in digits, so that what it says can be marked and graded."""

import json
from pathlib import Path

import pytest
import torch
from toys import QUESTIONS

from ruplar import plugins
from ruplar.model.load import attach_markers
from ruplar.model.settings import BackboneConfig, PromptConfig
from ruplar.model.store import Model, ModelMetadata, PluginSpec
from ruplar.reasoner import LatentReasoner


@pytest.fixture
def questions() -> list[str]:
    """Seven; the last repeats the first."""
    return [*QUESTIONS, QUESTIONS[0]]


@pytest.fixture
def make_reasoner(tiny_model, byte_tokenizer):
    """Method and its settings → a reasoner whose only likely tokens are digits, `</think>` and the end token."""

    def make(method: str = "ruplar", **settings) -> LatentReasoner:
        backbone = attach_markers(tiny_model("llama", len(byte_tokenizer), tied=False), byte_tokenizer, PromptConfig())
        digits = [*byte_tokenizer.convert_tokens_to_ids(list("0123456789")), backbone.eos_id]
        with torch.no_grad():
            rows = torch.randn(len(digits) + 1, 32, generator=torch.Generator().manual_seed(1))
            backbone.head.weight.zero_()  # every other token has logit 0, below the largest of eleven random ones
            backbone.head.weight[[*digits, backbone.end_think_id]] = rows
        card = ModelMetadata(
            method=PluginSpec(name=method, settings=settings),
            backbone=BackboneConfig(),
            prompt=PromptConfig(),
            domain=PluginSpec(name="arithmetic"),
        )
        made = plugins.make("methods", method, settings)
        made.attach(backbone)
        return LatentReasoner(Model(backbone, made, plugins.make("domains", "arithmetic"), card))

    return make


@pytest.fixture
def reasoner(make_reasoner) -> LatentReasoner:
    return make_reasoner("ruplar", halt_threshold=0.03, max_latents=5)


@pytest.fixture
def write_questions(tmp_path):
    """Rows of question, answer, maybe cot → a jsonl file."""

    def write(rows: list[dict], name: str = "toy.jsonl") -> Path:
        file = tmp_path / name
        file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        return file

    return write
