"""The files shown in docs/extending.md are taken from the page, put beside the package and used by their dotted names."""

import numpy as np
import pytest

from ruplar import plugins
from ruplar.errors import UserError
from ruplar.types import Example, SampleContext

pytestmark = pytest.mark.usefixtures("walk")


def encode(text: str) -> list[int]:
    """One id a character, so that `24` is two pieces."""
    return [ord(letter) for letter in text]


def prior_of(span, **settings) -> dict[str, float]:
    built = plugins.make("priors", "extras.numbers", settings).build(span, encode, np.random.default_rng(0))
    return {chr(i): float(p) for i, p in zip(built.ids, built.probs, strict=True)}


def span_of(step: str):
    return plugins.make("spans", "step").cut(step, plugins.make("domains", "arithmetic"))[0]


def test_the_prior_of_the_page_puts_the_named_share_on_the_result_and_none_on_operators():
    # 0.2 over the two other numbers is 0.1 each
    assert prior_of(span_of("3+4=7"), result_share=0.8) == pytest.approx({"7": 0.8, "3": 0.1, "4": 0.1})
    # 24 has two pieces, 0.45 each; the 2 of 12 is one of them, so the 1 alone has what is left
    assert prior_of(span_of("12+12=24")) == pytest.approx({"2": 0.45, "4": 0.45, "1": 0.1})
    assert sum(prior_of(span_of("5=5")).values()) == pytest.approx(1)


def test_the_spans_rule_of_the_page_echoes_the_result():
    rule, domain = plugins.make("spans", "extras.echo"), plugins.make("domains", "arithmetic")
    step, echo = rule.cut("3+4=7", domain)
    assert (step.symbols, step.result) == (("3", "+", "4", "=", "7"), ("7",))
    assert (echo.text, echo.symbols, echo.result) == ("7", ("7",), ())
    assert len(rule.cut("3+4", domain)) == 1
    assert rule.cut("", domain) == []


@pytest.fixture
def backbone(tiny_model, byte_tokenizer):
    from ruplar.model.load import attach_markers
    from ruplar.model.settings import PromptConfig

    return attach_markers(tiny_model("llama", len(byte_tokenizer)), byte_tokenizer, PromptConfig())


@pytest.fixture
def tools(backbone):
    from ruplar.data.encoding import Encoder
    from ruplar.priors.base import PriorTable

    table = PriorTable(plugins.make("priors", "mixture"), backbone.prompt.plain)
    domain, spans = plugins.make("domains", "arithmetic"), plugins.make("spans", "step")
    return Encoder(backbone.prompt, backbone.markers, domain, spans, table)


@pytest.mark.parametrize("name", ["extras.pause", "extras.gated"])
def test_the_methods_of_the_page_use_the_prompt_of_inference(name, backbone, tools, monkeypatch):
    method = plugins.make("methods", name)
    monkeypatch.setattr(type(method), "question", lambda self, text, context=None: f"{text} Answer briefly.")
    item = method.encode(Example("3+4?", ("3+4=7",), "7"), tools, SampleContext(0, 0))
    prompt = backbone.prompt("3+4? Answer briefly.").ids
    assert item.ids[: len(prompt) + 1] == [*prompt, backbone.think_id]


def test_the_method_of_the_page_encodes_learns_and_thinks(backbone, tools):
    from ruplar.data.collate import collate
    from ruplar.engine.reference import generate
    from ruplar.engine.sampling import Decoding

    method = plugins.make("methods", "extras.pause", {"pauses": 2})
    item = method.encode(Example("3+4?", ("3+4=7",), "7"), tools, SampleContext(0, 0))
    answer = tools.answer("7")
    opening, closing = [backbone.think_id] * 3, [backbone.end_think_id]
    assert item.ids == [*backbone.prompt("3+4?").ids, *opening, *closing, *answer]
    assert item.labels == [-100] * (len(item.ids) - len(answer)) + answer

    loss = method.loss(backbone, collate([item], backbone.pad_id))
    loss.total.backward()
    assert loss.total.item() > 0 and backbone.embedding.weight.grad.abs().sum() > 0

    [row] = generate(backbone, method.thinker(backbone), [backbone.prompt("3+4?")], Decoding(max_answer_tokens=5))
    # prefill, two blanks, </think>, and one forward less than answer tokens
    assert (row.latent_count, row.halted, row.forwards) == (2, True, 1 + 2 + 1 + len(row.answer_ids) - 1)


@pytest.mark.slow
def test_the_walk_of_the_page_can_be_followed_command_by_command(walk, blocks, follow):
    from ruplar.model.store import load_model

    said = dict(follow(blocks["walk"], {}))
    assert list(said) == ["train", "ask", "evaluate", "ablate", "export"]
    assert "2 soft tokens" in said["ask"] and "z2" in said["ask"]
    assert "real" in said["ablate"] and "shuffled" in said["ablate"]
    assert (walk / "exported" / "model.safetensors").is_file()
    trained, exported = load_model("runs/gated"), load_model("exported")
    factor = trained.method.gate.factor
    # three steps have moved the factors from where they began, and the export has them too
    assert (factor != 0.1).all() and factor.tolist() == exported.method.gate.factor.tolist()


def test_the_study_of_the_page_plans_every_row_once_a_value_and_seed():
    from ruplar.experiments.plan import load_study, plan

    cells = plan(load_study("pauses.yaml"), ["training.max_steps=600"])
    assert [cell.name for cell in cells[:3]] == ["No-CoT-seed1", "Pause_pauses=2-seed1", "Pause_pauses=6-seed1"]
    assert len(cells) == 9 and {cell.config.training["max_steps"] for cell in cells} == {600}


def test_the_benchmark_of_the_page_is_evaluated_by_its_name_and_not_trained_on(blocks, tmp_path, monkeypatch):
    import yaml

    from ruplar.data import decontamination
    from ruplar.data.locations import KNOWN_SETS, KnownSet, locate

    [(name, entry)] = yaml.safe_load(blocks["known_sets.yaml"]).items()
    monkeypatch.setitem(KNOWN_SETS, name, KnownSet(**entry))
    (tmp_path / entry["file"]).write_text('{"question": "3+4?", "answer": "7"}\n', encoding="utf-8")
    assert locate(name, tmp_path).path == tmp_path / entry["file"]
    assert decontamination.why_not_train(name) == f"'{name}' is a test set"


def test_a_file_that_is_not_on_the_path_is_named():
    with pytest.raises(UserError, match="'extras.missing': cannot be imported.*PYTHONPATH"):
        plugins.load("priors", "extras.missing")
