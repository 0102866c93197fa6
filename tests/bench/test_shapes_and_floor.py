"""Shapes are the published ones, lengths are GSM8K's, and the floor follows from two measured numbers."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import ruplar
from ruplar.bench import shapes
from ruplar.bench.timing import Ceilings, Load, question_floor_ms, repeat

PARAMETERS = {
    "llama-3.2-1b": 1_235_814_400,
    "llama-3.2-3b": 3_212_749_824,
    "qwen2.5-1.5b": 1_543_714_304,
    "smollm2-135m": 134_515_008,
}


@pytest.mark.parametrize("name", PARAMETERS)
def test_a_shape_has_as_many_weights_as_its_model_card_says(name):
    backbone = shapes.build(name, "meta", torch.bfloat16)
    assert sum(p.numel() for p in backbone.model.parameters()) == PARAMETERS[name]
    assert backbone.end_think_id == backbone.embedding_weight.shape[0] - 1


def test_the_embedded_shape_is_that_of_the_model_in_the_package():
    file = Path(ruplar.__file__).parent / "embedded" / "backbone" / "config.json"
    config = json.loads(file.read_text())
    sizes = shapes.sizes_of("embedded")
    assert {k: config[k] for k in sizes if k != "rope"} == {k: v for k, v in sizes.items() if k != "rope"}


def test_lengths_are_those_of_the_1319_test_questions():
    every = shapes.gsm8k_lengths()
    assert (len(every), min(every), max(every)) == (1319, 47, 210)
    assert sum(every) / 1319 == pytest.approx(83.97, abs=0.01)
    some = shapes.gsm8k_lengths(100)
    assert len(some) == 100
    assert sum(some) / 100 == pytest.approx(84, abs=2)  # spread over them, not the first hundred


def test_a_floor_is_the_slower_of_bytes_and_products_of_each_forward():
    load = Load(body=90, head=10, bytes_each=2, cache_bytes=0, total_bytes=200)
    # 200 bytes at 1,000 bytes/s are 0.2 s a forward; products take no time at all; 1 + 3 + 10 forwards
    assert question_floor_ms(load, Ceilings(1000, 1e12), 110, 3, 10) == pytest.approx(14 * 200)
    # bytes take no time; a prompt of 4 and <think>: 2·(90·5 + 10) = 920 products, then 2 steps of 200, at 1,000/s
    assert question_floor_ms(load, Ceilings(1e12, 1000), 4, 1, 1) == pytest.approx(920 + 200 + 200)
    # two rows read the weights once but multiply twice
    assert question_floor_ms(load, Ceilings(1e12, 1000), 4, 1, 1, batch=2) == pytest.approx(2 * 1320)
    # keys and values are read too: prefill 200; one step over 4 + 1 positions of 5 bytes: 225
    load = replace(load, cache_bytes=5)
    assert question_floor_ms(load, Ceilings(1000, 1e12), 4, 0, 1) == pytest.approx(200 + 225)


def test_work_is_repeated_after_warming_up_and_within_its_budget():
    calls = []
    assert repeat(lambda: calls.append(1), "cpu", times=4, warm_up=3).count == 4
    assert len(calls) == 7
    assert repeat(lambda: None, "cpu", times=1000, budget_s=0).count == 1  # once at least
