"""What is left of a method without its latents, over its seeds."""

import json

import pytest
from report_toys import write_study

from ruplar.errors import UserError
from ruplar.evaluate.record import ABLATION
from ruplar.report.rows import collect
from ruplar.report.summaries import latent_ablations
from ruplar.report.tables import latent_ablation_table


def ablate(folder, label, seed, on="svamp", **right):
    lines = [{"mode": mode, "n": 200, "correct": count} for mode, count in right.items()]
    (folder / f"{label}-seed{seed}" / ABLATION).write_text(json.dumps({"on": on, "rows": lines}))


@pytest.fixture
def folder(tmp_path):
    return write_study(tmp_path / "toy")


def test_modes_are_means_over_seeds_with_an_interval_for_both_kinds_of_chance(folder):
    ablate(folder, "good", 1, real=180, none=2)
    ablate(folder, "good", 2, real=160, none=2)
    [(row, on, n, modes)] = latent_ablations(collect(folder))
    assert (row.study, row.method, row.seeds, on, n) == ("toy", "good", (1, 2), "svamp", 200)
    mean, (low, high) = modes["real"]
    assert mean == pytest.approx(0.85) and low < 0.75 and high > 0.9, "seeds that scatter widen it"
    [line] = latent_ablation_table(collect(folder)).lines
    assert line[:4] == ("good", "svamp", "200", "2") and line[5] == "1.0 [0.3, 3.6]", "Wilson's, where they agree"


def test_a_method_with_a_seed_that_was_not_ablated_has_no_line(folder):
    ablate(folder, "good", 1, real=180)
    assert latent_ablations(collect(folder)) == [] and latent_ablation_table(collect(folder)).note == ""


@pytest.mark.parametrize("other", [{"on": "gsm8k", "real": 160}, {"none": 1}])
def test_seeds_that_were_asked_otherwise_are_not_pooled(folder, other):
    ablate(folder, "good", 1, real=180)
    ablate(folder, "good", 2, **other)
    with pytest.raises(UserError, match="'good'"):
        latent_ablations(collect(folder))


def test_a_broken_file_is_named(folder):
    for seed in (1, 2):
        (folder / f"good-seed{seed}" / ABLATION).write_text("{")
    with pytest.raises(UserError, match=f"good-seed1/{ABLATION}"):
        latent_ablations(collect(folder))
