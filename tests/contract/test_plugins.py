"""Every plug-in meets the contract of its kind; the files are discovered, so new ones are tested too."""

import math

import numpy as np
import pytest
import yaml
from pydantic import ValidationError

from ruplar import plugins
from ruplar.errors import UserError
from ruplar.priors.base import PriorTable
from ruplar.spans.base import attached, cut_chain
from ruplar.types import Example, SampleContext

ALL = [(kind, name) for kind in plugins.CLASSES for name in plugins.names(kind)]
DOMAINS, SPANS, PRIORS, METHODS = (plugins.names(kind) for kind in ("domains", "spans", "priors", "methods"))
QUESTIONS = ["3+4?", "Anna has 3 bags of 4 apples each. How many apples does she have?", "How many?"]


def encode(text: str) -> list[int]:
    """One id per character, so that most numbers have several tokens."""
    return [ord(letter) for letter in text]


class Letters:
    """The tokenizer behind `encode`."""

    def decode(self, ids, **_):
        return "".join(map(chr, ids))


def rule_of(name: str):
    """A spans rule that knows how symbols are written."""
    return attached(plugins.make("spans", name), encode, Letters())


def spans_of(domain_name: str, rule: str = "step"):
    """Every span of the domain's own example."""
    domain, cutter = plugins.make("domains", domain_name), rule_of(rule)
    return [span for cut in cut_chain(cutter, domain.split(domain.EXAMPLE[0]), domain) for span in cut]


@pytest.mark.parametrize(("kind", "name"), ALL)
def test_a_plug_in_is_described_and_checks_its_settings(kind, name):
    line = plugins.describe(kind, name)
    assert len(line) > 20 and line[0].isupper() and "\n" not in line
    config = plugins.load(kind, name).Config()
    assert type(config)(**yaml.safe_load(yaml.safe_dump(config.model_dump(mode="json")))) == config
    assert all(info.description for info in type(config).model_fields.values())
    with pytest.raises(ValidationError, match="no_such_setting"):
        plugins.make(kind, name, {"no_such_setting": 1})
    with pytest.raises(UserError, match=f"'{name}x'. Did you mean '{name}'"):
        plugins.make(kind, f"{name}x")


@pytest.mark.parametrize("name", DOMAINS)
def test_a_domain_reads_its_own_example(name):
    domain = plugins.make("domains", name)
    chain, answer = domain.EXAMPLE
    steps = domain.split(chain)
    assert steps and domain.split("") == []
    for step in steps:
        symbols, result = domain.symbols(step), domain.result(step)
        assert result and symbols[-len(result) :] == result, "the result's symbols are the step's last"
        assert domain.check(step) is None and domain.unchecked(step) is None
    assert domain.same("".join(domain.result(steps[-1])), answer)


@pytest.mark.parametrize("name", DOMAINS)
def test_a_domain_reads_an_answer_and_never_guesses_one(name):
    domain = plugins.make("domains", name)
    answer = domain.EXAMPLE[1]
    for written in (answer, rf"\boxed{{{answer}}}", rf"It is \boxed{{{answer}}}."):
        found = domain.extract(written)
        assert found is not None and domain.same(found, answer)
    assert domain.extract("") is None and domain.extract("I cannot say.") is None
    assert not domain.same(f"{answer}1", answer)


@pytest.mark.parametrize("name", SPANS)
@pytest.mark.parametrize("domain_name", DOMAINS)
def test_a_spans_rule_covers_every_symbol_once_and_in_order(name, domain_name):
    domain, cutter = plugins.make("domains", domain_name), rule_of(name)
    for step in domain.split(domain.EXAMPLE[0]):
        cut = cutter.cut(step, domain)
        covered, symbols = "".join(s for span in cut for s in span.symbols), "".join(domain.symbols(step))
        # a rule with a view of the chain may leave a result to the next step, or to the answer
        assert symbols.startswith(covered) if hasattr(cutter, "cut_chain") else covered == symbols
        assert all(span.text and span.symbols for span in cut)
        assert all(set(span.result) <= set(span.symbols) for span in cut)
    assert cutter.cut("", domain) == []


@pytest.mark.parametrize("name", SPANS)
@pytest.mark.parametrize("domain_name", DOMAINS)
def test_a_spans_rule_gives_every_step_of_a_chain_its_spans(name, domain_name):
    domain, cutter = plugins.make("domains", domain_name), rule_of(name)
    steps = domain.split(domain.EXAMPLE[0])
    cut = cut_chain(cutter, steps, domain)
    assert len(cut) == len(steps)
    assert all(span.text and span.symbols and set(span.result) <= set(span.symbols) for own in cut for span in own)
    assert cut_chain(cutter, steps[:1], domain) == [cutter.cut(steps[0], domain)]
    assert cut_chain(cutter, [], domain) == []


@pytest.mark.parametrize("name", PRIORS)
@pytest.mark.parametrize("rule", SPANS)
def test_a_prior_is_a_distribution_over_the_spans_own_tokens(name, rule):
    prior = plugins.make("priors", name)
    for span in [s for domain in DOMAINS for s in spans_of(domain, rule)]:
        built = prior.build(span, encode, np.random.default_rng(0))
        assert built.ids.dtype == np.int64 and built.probs.dtype == np.float32
        assert len(set(built.ids.tolist())) == len(built.ids) == len(built.probs)
        assert set(built.ids.tolist()) <= {i for symbol in span.symbols for i in encode(symbol)}
        assert (built.probs > 0).all() and math.fsum(built.probs.tolist()) == pytest.approx(1, abs=1e-6)
        assert (np.diff(built.probs) <= 0).all(), "sorted by probability"


@pytest.mark.parametrize("name", PRIORS)
def test_a_prior_is_deterministic_per_seed_and_context(name):
    span = spans_of(DOMAINS[0])[0]

    def built(seed, context):
        found = PriorTable(plugins.make("priors", name), encode, seed).of(span, context)
        return dict(zip(found.ids.tolist(), found.probs.tolist(), strict=True))

    assert built(3, (0, 1, 2)) == built(3, (0, 1, 2))
    drawn = plugins.make("priors", name).dynamic
    for other in (built(3, (1, 1, 2)), built(4, (0, 1, 2))):
        assert (built(3, (0, 1, 2)) != other) == drawn


@pytest.mark.parametrize("name", PRIORS)
def test_a_prior_refuses_a_span_without_tokens(name):
    span = spans_of(DOMAINS[0])[0]
    with pytest.raises(ValueError, match="no symbol"):
        plugins.make("priors", name).build(span, lambda text: [], np.random.default_rng(0))


@pytest.fixture
def backbone(tiny_backbone):
    """A random Llama with a LoRA adapter, every trained weight at random; its markers were added."""
    from toys import LORA, PROMPT

    made = tiny_backbone(lora=LORA, prompt=PROMPT, tied=False)
    made.model.eval()
    return made


@pytest.fixture
def batch_of(backbone):
    """Method → a batch of two chains of different lengths and, where it needs no steps, one without any."""
    from toys import encoder_of

    from ruplar.data.collate import collate

    tools = encoder_of(backbone)

    def make(method):
        rows = [Example("3+4?", ("3+4=7",), "7"), Example("(3+4)*2-1?", ("3+4=7", "7*2=14", "14-1=13"), "13")]
        if not method.needs_steps:
            rows.append(Example("What is 5?", (), "5"))
        items = [method.encode(example, tools, SampleContext(0, row)) for row, example in enumerate(rows)]
        for item in items:
            assert len(item.ids) == len(item.labels) and len(item.priors) in (0, len(item.latent_at))
            assert item.ids[-1] == item.labels[-1] == backbone.eos_id, "the answer ends, and its end is taught"
        return collate(items, backbone.pad_id)

    return make


def method_of(name, backbone, **settings):
    """An attached method in eval mode."""
    method = plugins.make("methods", name, settings)
    assert method.modules() == {}, "no modules before attach"
    method.attach(backbone)
    for module in method.modules().values():
        module.eval()
    return method


@pytest.mark.parametrize("name", METHODS)
def test_a_methods_loss_is_finite_and_the_sum_of_its_parts(name, backbone, batch_of):
    method = method_of(name, backbone)
    loss = method.loss(backbone, batch_of(method))
    parts = {part: value.item() for part, value in loss.parts.items()}
    assert parts and all(math.isfinite(value) for value in parts.values())
    assert loss.total.item() == pytest.approx(sum(parts.values())) and loss.total.item() > 0
    assert not any(value.requires_grad for value in loss.watch.values())


@pytest.mark.parametrize("name", METHODS)
def test_one_step_changes_the_adapter_and_the_method_s_modules_only(name, backbone, batch_of):
    import torch

    method = method_of(name, backbone)
    batch = batch_of(method)
    weights = dict(backbone.model.named_parameters())
    weights |= {f"{m}.{n}": p for m, module in method.modules().items() for n, p in module.named_parameters()}
    before = {n: p.detach().clone() for n, p in weights.items()}
    trained = {n for n, p in weights.items() if p.requires_grad}
    assert trained and trained != set(weights)
    method.loss(backbone, batch).total.backward()
    assert {n for n, p in weights.items() if p.grad is not None} == trained
    torch.optim.SGD([weights[n] for n in trained], lr=0.1).step()
    assert {n for n, p in weights.items() if not torch.equal(p, before[n])} == trained


@pytest.mark.parametrize("name", METHODS)
def test_a_method_does_not_depend_on_the_batch(name, backbone):
    from toys import assert_same

    from ruplar.engine.reference import generate
    from ruplar.engine.sampling import Decoding

    limits = {"max_thought", "max_latents"} & plugins.load("methods", name).Config.model_fields.keys()
    method = method_of(name, backbone, **dict.fromkeys(limits, 8))  # a random model would think up to the limit
    thinker, decoding = method.thinker(backbone), Decoding(max_answer_tokens=4)
    prompts = [backbone.prompt(question) for question in QUESTIONS]
    together = generate(backbone, thinker, prompts, decoding, keep_latents="embeds")
    alone = [generate(backbone, thinker, [prompt], decoding, keep_latents="embeds")[0] for prompt in prompts]
    assert_same(alone, together, 1e-5)
