"""A saved model under other settings of its method: CoLaR-5 and CoLaR-2 from one folder, told apart in every record."""

import pytest
import torch
from toys import opened

from ruplar import plugins
from ruplar.cli.options import method_settings
from ruplar.errors import UserError
from ruplar.evaluate.record import BenchmarkResult, RunRecord
from ruplar.model.settings import LoraSettings
from ruplar.model.store import PluginSpec, init_method, load_model, read_metadata, save_model
from ruplar.reasoner import LatentReasoner
from ruplar.report.rows import Run, pool
from ruplar.runs import check_same_model


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A CoLaR model on the embedded backbone with random weights of its own."""
    torch.set_num_threads(1)
    lora = LoraSettings(rank=2, alpha=4)
    model = opened("colar", {"head_width": 16, "max_latents": 3}, name="embedded", dtype="float32", lora=lora)
    torch.manual_seed(0)
    torch.nn.init.normal_(model.method.head.mean.weight)
    return save_model(tmp_path_factory.mktemp("colar") / "model", model)


def test_settings_are_read_as_yaml():
    assert method_settings(["method.speed=2", "method.halt=sample"]) == {"speed": 2, "halt": "sample"}
    for bad in ("speed=2", "method.speed", "prior.name=x"):
        with pytest.raises(UserError, match="Write method.NAME=VALUE"):
            method_settings([bad])


def test_calibrated_settings_are_saved_with_the_model(folder):
    found = load_model(folder)
    sigma = found.metadata.method.settings["sigma"]
    assert sigma == found.method.config.sigma == pytest.approx(found.backbone.embedding_weight.detach().std().item())


def test_one_model_thinks_at_two_speeds(folder):
    slow = LatentReasoner.from_pretrained(folder, settings={"speed": 2})
    assert slow.model.method.question("Why?") == "Why? (Thinking speed: 2)"
    assert (slow.model.method.label, load_model(folder).method.label) == ("CoLaR-2", "CoLaR-5")
    assert slow.model.metadata.method.settings["speed"] == 2
    seen = []
    prompt = slow.model.backbone.prompt
    slow.model.backbone.prompt = lambda text: seen.append(text) or prompt(text)
    [answer] = slow.ask(["How many?"])
    assert seen == ["How many? (Thinking speed: 2)"] and 1 <= answer.latent_count <= 3


def test_a_setting_the_method_does_not_have_or_take_is_named(folder):
    with pytest.raises(UserError, match="method: unknown setting of method colar 'sped'. Did you mean 'speed'"):
        load_model(folder, settings={"sped": 2})
    with pytest.raises(UserError, match="method.speed: must be at least 1, got 0"):
        load_model(folder, settings={"speed": 0})
    with pytest.raises(UserError, match="another model or with other"):
        load_model(folder, settings={"head_width": 8})


def test_method_weights_are_loaded_only_from_the_same_method(folder):
    stored = load_model(folder)
    method = plugins.make("methods", "colar", {"head_width": 16})
    method.attach(stored.backbone)
    assert not torch.equal(method.head.mean.weight, stored.method.head.mean.weight)
    assert init_method(method, PluginSpec(name="colar", settings={"sigma": None}), folder)
    assert torch.equal(method.head.mean.weight, stored.method.head.mean.weight)
    assert not init_method(method, PluginSpec(name="colar"), "embedded:no_cot")


def record(name: str, settings: dict, seed: int = 0) -> RunRecord:
    counts = {"n": 10, "correct": 5, "latents": 2, "answer_tokens": 2, "forwards": 5}
    result = BenchmarkResult(name="word-problems", ms_per_question=1, **counts)
    return RunRecord(
        name=name, config={"method": {"name": settings.pop("method"), "settings": settings}}, seed=seed, commit="a" * 40,
        dirty=False, versions={}, machine={"cpu": "x", "cores": 2, "memory_gb": 4}, started="2026-01-01T00:00:00+00:00", seconds=1.0, benchmarks=[result],
    )  # fmt: skip


def test_results_of_two_models_do_not_meet_in_one_record(folder, tmp_path):
    metadata = read_metadata(folder)
    begun = record("colar", {"method": "colar"}).model_copy(update={"config": metadata.model_dump(mode="json")})
    check_same_model(begun, metadata, "abc", tmp_path)  # an older record does not know its weights
    faster = metadata.method.model_copy(update={"settings": {**metadata.method.settings, "speed": 2}})
    known = begun.model_copy(update={"weights": "def"})
    for one, other, said in ((begun, {"method": faster}, "method.speed"), (known, {}, "weights")):
        with pytest.raises(UserError, match=f"has results of 'colar', another model: {said} differ"):
            check_same_model(one, metadata.model_copy(update=other), "abc", tmp_path)


def test_tables_name_what_a_run_really_is(tmp_path):
    runs = [
        record("colar", {"method": "colar", "speed": 2}),
        record("colar", {"method": "colar", "speed": 5}),
        record("CoLaR-5, mine", {"method": "colar", "speed": 5}),
        record("unprojected", {"method": "regular", "features": "tokens", "project": False}),
        record("ruplar", {"method": "ruplar"}),
        record("elsewhere", {"method": "not.installed"}),
    ]
    rows = pool([Run(tmp_path, one, one.benchmarks[0]) for one in runs])
    assert [row.method for row in rows] == [
        "colar (CoLaR-2)", "colar (CoLaR-5)", "CoLaR-5, mine", "unprojected (CoLaR with one group per step)", "ruplar",
        "elsewhere",
    ]  # fmt: skip
