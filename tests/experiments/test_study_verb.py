"""`ruplar study` and `ruplar report` as they are typed."""

from dataclasses import astuple

import pytest
import yaml
from cases import cases
from tiny import FINISHED, TINY


@pytest.fixture
def typed(tmp_path, ruplar):
    """Words → exit status, standard output and error, in a folder with tiny.yaml."""
    entries = {"name": "tiny", "seeds": [1, 2], "on": [{"source": "word-problems", "count": 4}]}
    entries |= {"rows": FINISHED["rows"], "set": TINY}
    (tmp_path / "tiny.yaml").write_text(yaml.safe_dump(entries, sort_keys=False))
    return lambda *words: astuple(ruplar(*words))


def test_the_plan_shows_every_cell_and_how_far_it_is(typed):
    code, out, _ = typed("study", "tiny.yaml", "--plan")
    assert code == 0 and out.splitlines() == [
        f"waiting  {label}-seed{seed}" for seed in (1, 2) for label in ("No-CoT", "Mix", "Short")
    ]
    code, out, _ = typed("study", "tiny.yaml", "--plan", "--seeds", "5", "--only", "No*")
    assert code == 0 and out.split() == ["waiting", "No-CoT-seed5"]
    code, out, _ = typed("study", "tiny.yaml", "--plan", "--seeds", "5", "--only", "No*", "--json")
    assert code == 0 and yaml.safe_load(out) == {"No-CoT-seed5": "waiting"}


@pytest.mark.parametrize("word", ["By step-seed2", "By_step-seed2", "By*2"])
def test_a_cell_is_named_by_its_label_and_seed_or_by_its_folder(typed, tmp_path, word):
    file = tmp_path / "tiny.yaml"
    file.write_text(file.read_text().replace("Short:", "By step:"))
    code, out, _ = typed("study", "tiny.yaml", "--plan", "--only", f"{word},Mix")
    assert code == 0 and "By_step-seed2" in out and "By_step-seed1" not in out


@pytest.mark.parametrize(("words", "said"), cases(__file__, "mistakes"))
def test_mistakes_are_told_before_any_work(typed, tmp_path, words, said):
    code, _, err = typed("study", "tiny.yaml", "--device", "cpu", *words)
    assert code == 2 and said in err.replace("\n", " ")
    assert not (tmp_path / "results").exists()


def test_one_row_is_trained_with_the_settings_of_its_study(typed):
    code, out, _ = typed("train", "--row", "tiny.yaml:Mix", "seed=7", "training.max_steps=3", "--check")
    config = yaml.safe_load(out)
    assert code == 0 and (config["seed"], config["training"]["max_steps"]) == (7, 3)
    assert config["name"] == "embedded-ruplar" and config["data"]["train"][0]["count"] == TINY["data.train"]["count"]
    code, out, _ = typed(
        "train", "--row", "main-curves:CoLaR-5 try learning_rate=0.002", "method.latent_loss=nll", "--check"
    )
    assert code == 0 and yaml.safe_load(out)["method"]["latent_loss"] == "nll", "a setting that other rows do not have"
    code, _, err = typed("train", "--row", "tiny.yaml:Mixed", "--check")
    assert code == 2 and "unknown row 'Mixed'. Did you mean 'Mix'?" in err.replace("\n", " ")
    code, _, err = typed("train", "--row", "tiny.yaml:Short", "--check")
    assert code == 2 and "'Short' trains no model; it evaluates that of 'Mix'" in err.replace("\n", " ")
    code, _, err = typed("train")
    assert code == 2 and "--row STUDY:LABEL" in err
