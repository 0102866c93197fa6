"""Every `ruplar bench` verb leaves a record whose keys programs can rely on and whose ratios follow from its parts."""

import json

import pytest
from typer.testing import CliRunner

from ruplar.bench import latency, throughput
from ruplar.bench.models import models
from ruplar.bench.report import KEYS, shown
from ruplar.bench.train import TrainOptions, train
from ruplar.cli import app
from ruplar.errors import UserError


@pytest.fixture
def measured(tiny_shape, tmp_path):
    """Arguments of `ruplar bench` → the record it wrote."""

    def run(what, *more):
        file = tmp_path / "deep" / "found.json"
        done = CliRunner().invoke(
            app, ["bench", what, "--shape", tiny_shape, "--quick", "--device", "cpu", "--output", str(file), *more]
        )
        assert done.exit_code == 0, done.output
        assert what in done.output
        record = json.loads(file.read_text())
        assert list(record)[: len(KEYS[what])] == KEYS[what] and {"commit", "dirty", "torch", "cpu"} <= record.keys()
        return record

    return run


@pytest.mark.slow
def test_latency_has_ratios_that_follow(measured):
    record = measured("latency")
    assert record["vs_published"] == pytest.approx(record["published_ms"] / record["ours_ms"])
    assert record["vs_hf_cot"] == pytest.approx(record["hf_cot_ms"] / record["ours_ms"])
    assert record["vs_text"] == pytest.approx(record["text_ms"] / record["ours_ms"])
    assert record["vs_floor"] == pytest.approx(record["ours_ms"] / record["floor_ms"])
    assert record["floor_vs_text"] == pytest.approx(record["text_floor_ms"] / record["floor_ms"])
    # prompt of 12 and <think>, 2 latents or 4 tokens, </think>, 2 of 3 answer tokens
    assert [record[key] for key in ("forwards", "text_forwards", "tokens", "text_tokens")] == [6, 8, 18, 20]
    assert record["ours_p10_ms"] <= record["ours_ms"] <= record["ours_p90_ms"]
    # 64·32 tied table; a layer: q, o 2·32·32, k, v 2·16·32, the gated block 3·32·48, two norms; a last norm; 4 bytes each
    assert record["weights_gb"] == pytest.approx(4 * (2048 + 2 * (2048 + 1024 + 4608 + 64) + 32) / 1e9)


@pytest.mark.slow
def test_throughput_has_ratios_that_follow(measured):
    record = measured("throughput", "--batches", "1,4")
    rates = record["questions_per_s"]
    assert list(rates) == ["1", "4"]
    best = max(rates.values())
    assert rates[str(record["best_batch"])] == best == record["best_questions_per_s"]
    assert record["vs_published"] == pytest.approx(best / record["published_questions_per_s"])
    assert record["vs_batch_1"] == pytest.approx(best / rates["1"])
    text = record["text_questions_per_s"]
    assert record["vs_text"] == pytest.approx(best / text[str(record["best_batch"])]) and list(text) == list(rates)
    at_floor = record["floor_vs_text_by_batch"]
    assert record["floor_vs_text"] == at_floor[str(record["best_batch"])] and at_floor["1"] > at_floor["4"] > 1
    assert record["questions"] == 12


@pytest.mark.slow
def test_train_has_ratios_that_follow(measured):
    record = measured("train", "--pack", "512", "--gradient-checkpointing")
    assert record["tokens_per_s"] == pytest.approx(1000 * record["tokens_per_step"] / record["ours_ms"])
    assert record["vs_published_speed"] == pytest.approx(record["tokens_per_s"] / record["published_tokens_per_s"])
    assert record["vs_published_speed"] == pytest.approx(record["published_ms"] / record["ours_ms"])
    assert (record["trains"], record["pack"]) == ("lora", 512)


def test_graphs_are_refused_where_nothing_would_be_captured(tiny_shape):
    with pytest.raises(UserError, match=r"(?s)needs an NVIDIA GPU.*set --pack.*leave out --gradient-checkpointing"):
        train(tiny_shape, "cpu", "float32", TrainOptions(graph=True, checkpoint=True))


@pytest.mark.slow
def test_all_weights_can_be_trained_instead_of_adapters(measured):
    record = measured("train", "--full", "--no-published")
    assert (record["trains"], record["published_fits"], record["published_ms"]) == ("all", None, None)


@pytest.mark.slow
def test_growth_varies_one_thing_at_a_time(tiny_shape, monkeypatch):
    monkeypatch.setattr(throughput, "LATENTS", (0, 2))
    monkeypatch.setattr(throughput, "PROMPTS", (8, 16))
    record = throughput.growth(tiny_shape, "cpu", "float32", [1, 3], repeats=1)
    assert [(r["vary"], r["x"], r["batch"]) for r in record["rows"]] == [
        ("latents", 0, 1), ("latents", 2, 1), ("prompt", 8, 1), ("prompt", 16, 1), ("batch", 1, 1), ("batch", 3, 3),
    ]  # fmt: skip
    assert all(r["vs_floor"] == pytest.approx(r["ours_ms"] / r["floor_ms"]) for r in record["rows"])
    assert all(r["vs_text"] == pytest.approx(r["text_ms"] / r["ours_ms"]) for r in record["rows"])
    latents = [r["floor_ms"] for r in record["rows"] if r["vary"] == "latents"]
    assert latents[0] < latents[1]
    assert all(r["floor_vs_text"] == pytest.approx(r["text_floor_ms"] / r["floor_ms"]) for r in record["rows"])
    assert [table.row_count for table in shown(record)[1:]] == [1, 6]


def test_an_unknown_shape_is_named_with_the_known_ones():
    done = CliRunner().invoke(app, ["bench", "latency", "--shape", "llama-3.2-1", "--device", "cpu"])
    assert "Did you mean 'llama-3.2-1b'" in str(done.exception)


@pytest.mark.slow
def test_agreement_asks_a_trained_model_by_both_engines():
    record = latency.agreement("embedded:cot", "cpu", 8, (1, 5), ("float32",))
    assert (record["float32_same"], record["shape"]) == (1.0, "embedded:cot")
    assert [(row["slots"], row["questions"]) for row in record["rows"]] == [(1, 8), (5, 8)]
    assert all(row["largest_logit_difference"] < 1e-3 for row in record["rows"])


@pytest.mark.slow
def test_trained_models_are_compared_with_their_own_lengths(tmp_path):
    file = tmp_path / "models.json"
    sizes = ["--questions", "2", "--batches", "2", "--device", "cpu", "--dtype", "bfloat16", "--output", str(file)]
    done = CliRunner().invoke(app, ["bench", "models", "embedded:ruplar", "embedded:cot", *sizes])
    assert done.exit_code == 0, done.output
    record = json.loads(file.read_text())
    ours, text, hf = record["rows"]
    assert record["dtype"] == "bfloat16"
    assert [row["procedure"] for row in record["rows"]] == ["ours", "text", "hf_cot"]
    assert record["vs_text"] == pytest.approx(text["ms"] / ours["ms"]) and record["vs_hf_cot"] > 0
    # equal prompts, so the written chain processes as many tokens more as it takes forward passes more
    assert text["tokens"] - ours["tokens"] == pytest.approx(text["forwards"] - ours["forwards"]) and text["tokens"] > 0
    assert hf["tokens"] == text["tokens"]
    with pytest.raises(UserError, match="embedded:ruplar does not write its reasoning"):
        models(("embedded:ruplar", "embedded:ruplar"), "word-problems", ("cpu", "float32"), [1], 2, 1)
