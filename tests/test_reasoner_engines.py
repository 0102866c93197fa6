"""Which engine answers: the fast one where it is supported, else the reference engine; and token ids in and out."""

import copy
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from cases import cases
from transformers import AutoConfig, AutoModelForCausalLM

from ruplar import plugins
from ruplar.engine import hf_decoder
from ruplar.engine.decoder import Decoder
from ruplar.engine.fast import FastEngine
from ruplar.engine.sampling import Decoding
from ruplar.engine.scheduler import Scheduler
from ruplar.engine.thinker import ReplayThinker
from ruplar.errors import UserError
from ruplar.model.load import attach_markers
from ruplar.model.settings import BackboneConfig, PromptConfig
from ruplar.model.store import Model, ModelMetadata, PluginSpec, save_model
from ruplar.model.tokenizers import load_tokenizer
from ruplar.reasoner import LatentReasoner
from ruplar.serve.registry import ServedModel
from ruplar.serve.schemas import Limits

LONG = "one two three four five " * 60


@pytest.fixture
def model():
    """Settings of a two-layer Mistral, or of another family → a model that thinks in soft tokens."""

    def make(family="mistral", **settings):
        shape = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
        shape |= {"vocab_size": 2304, "intermediate_size": 48, "max_position_embeddings": 2048}
        config, prompt = AutoConfig.for_model(family, **shape, **settings), PromptConfig()
        torch.manual_seed(0)
        made = AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
        backbone = attach_markers(made, load_tokenizer("embedded"), prompt)
        method = plugins.make("methods", "ruplar", {"max_latents": 4})
        method.attach(backbone)
        parts = {"backbone": BackboneConfig(name="tiny"), "prompt": prompt, "domain": PluginSpec(name="arithmetic")}
        metadata = ModelMetadata(method=PluginSpec(name="ruplar"), **parts)
        return Model(backbone, method, plugins.make("domains", "arithmetic"), metadata)

    return make


@pytest.mark.parametrize(("settings", "window"), cases(__file__, "windows"))
def test_questions_beyond_the_attention_window_use_the_reference_engine(model, settings, window):
    made = model(**settings)
    auto, plain = LatentReasoner(made), LatentReasoner(made, engine="reference")
    for asked in (["1 + 1?"], ["1 + 1?", LONG]):
        assert [a.text for a in auto.ask(asked)] == [a.text for a in plain.ask(asked)]
    fast = LatentReasoner(made, engine="fast")
    fast.ask(["1 + 1?"])
    with pytest.raises(UserError, match=rf"attention window is {window} positions.*engine: reference"):
        fast.ask([LONG])


def test_a_server_keeps_within_the_attention_window(model, tmp_path):
    folder = str(save_model(tmp_path / "model", model(sliding_window=512)))
    served = ServedModel.load("m", folder, Limits(slots=1), "cpu")
    assert served.max_prompt == 512 - 256 - (16 + 3), "answer, and 16 latents between the markers"
    with pytest.raises(UserError, match=r"512 positions.*Lower --max-tokens \(now 500\)"):
        ServedModel.load("m", folder, Limits(max_tokens=500), "cpu")


def test_engine_fast_is_refused_for_unsupported_layers(model, monkeypatch):
    monkeypatch.setattr(Decoder, "of", lambda *given: None)
    monkeypatch.setattr(hf_decoder, "probe", lambda *given: [][0])  # as for RecurrentGemma
    made = model(sliding_window=None)
    with pytest.raises(UserError, match="fast engine.* does not support the layers of Mistral.*'auto' or 'reference'"):
        LatentReasoner(made, engine="fast").ask(["1 + 1?"])
    assert LatentReasoner(made).ask(["1 + 1?"])[0].forwards > 0


@pytest.mark.parametrize("samples", [1, 3])
def test_warm_up_builds_the_engine(model, monkeypatch, samples):
    made, plain = [], FastEngine.of
    monkeypatch.setattr(FastEngine, "of", lambda *given: made.append(given) or plain(*given))
    reasoner, how = LatentReasoner(model(sliding_window=None)), {"return_latents": True, "batch_size": samples}
    decoding = Decoding(noise=0.3 if samples > 1 else 0.0)
    reasoner.warm_up(decoding=decoding, samples=samples, **how)
    assert len(made) == 1
    reasoner.sample(["1 + 1?"], samples, decoding=decoding, **how)
    assert len(made) == 1


@pytest.mark.parametrize("engine", ["fast", "reference"])
def test_generate_takes_prompts_as_ids_and_returns_ids(model, engine):
    made = model(sliding_window=None)
    reasoner, questions = LatentReasoner(made, engine=engine), ["1 + 1?", "How many apples are there?"]
    prompts = [list(made.prompt(question).ids) for question in questions]
    wanted = [row.answer_ids for row in reasoner.generate(questions)]
    assert [row.answer_ids for row in reasoner.generate(prompts)] == wanted
    assert [row.answer_ids for row in reasoner.generate(questions[0])] == wanted[:1]
    width = max(map(len, prompts))
    ids = torch.tensor([[0] * (width - len(prompt)) + prompt for prompt in prompts])
    mask = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts])
    assert [row.answer_ids for row in reasoner.generate(ids, attention_mask=mask)] == wanted
    end, decode = made.backbone.eos_id, made.backbone.tokenizer.decode
    texts = [decode(found[:-1] if found[-1] == end else found) for found in wanted]
    assert texts == [answer.text for answer in reasoner.ask(questions)]
    given = {"thinker": lambda at: ReplayThinker(torch.zeros(2, 2, 32)[at]), "decoding": Decoding(1.0)}
    again = reasoner.generate(questions, samples=2, **given)
    assert [row.latent_count for row in again] == [2] * 4, "both samples of both questions"
    with pytest.raises(UserError, match="input 2: the prompt is empty"):
        reasoner.generate([prompts[0], []])
    for wrong in (prompts[0], torch.tensor(prompts[0]), [torch.tensor(prompts[0])]):
        with pytest.raises(UserError, match="must be questions, a list of id lists or a tensor .* got a list of"):
            reasoner.generate(wrong)


def test_threads_take_turns_on_one_reasoner(model, monkeypatch):
    reasoner = copy.deepcopy(LatentReasoner(model()))  # with a lock of its own
    questions, at_once, run_all = ["1 + 1?", LONG, "2?", "3?"], [0], Scheduler.run_all
    wanted = [answer.text for answer in reasoner.ask(questions)]

    def counted(*given):
        at_once.append(at_once[-1] + 1)
        time.sleep(0.02)  # long enough for another thread to come in, were it not kept out
        found = run_all(*given)
        at_once.append(at_once[-1] - 1)
        return found

    monkeypatch.setattr(Scheduler, "run_all", counted)
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda question: reasoner.ask(question)[0].text, questions)) == wanted
        assert len(list(pool.map(reasoner.generate, questions))) == 4
    assert max(at_once) == 1


@pytest.mark.parametrize(("given", "said"), cases(__file__, "wrong_arguments"))
def test_wrong_arguments_are_named(given, said):
    with pytest.raises(UserError, match=said):
        LatentReasoner.from_pretrained("embedded", **given)


def test_devices_and_data_types_may_be_those_of_torch():
    for device, dtype in ((torch.device("cpu"), torch.bfloat16), ("auto", "bfloat16")):
        backbone = LatentReasoner.from_pretrained("embedded", device=device, dtype=dtype).model.backbone
        assert backbone.embedding_weight.dtype == torch.bfloat16
