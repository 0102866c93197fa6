"""`ruplar data prepare`, as it is typed: recipes and studies → what `ruplar train` and `ruplar study` then find."""

from pathlib import Path

import pytest
import yaml
from cases import cases

ENCODED = Path("runs/.encoded")
SET = cases(__file__, "set")
WORDS = [f"{key}={yaml.safe_dump(value, default_flow_style=True).split(chr(10))[0]}" for key, value in SET.items()]


def _written() -> dict[Path, int]:
    return {file: file.stat().st_mtime_ns for file in ENCODED.glob("[!.]*/**/*") if file.is_file()}


@pytest.fixture
def study(tmp_path):
    """A study file with four rows that train: two share their sequences, and one's change from visit to visit."""
    made = cases(__file__, "study") | {"set": SET}
    (tmp_path / "tiny.yaml").write_text(yaml.safe_dump(made, sort_keys=False), encoding="utf-8")
    return "tiny.yaml"


@pytest.mark.slow
def test_a_study_finds_every_encoding_of_its_cells(ruplar, study):
    mix, first, temp, second, coconut, note = ruplar("data", "prepare", study).out.splitlines()
    assert [mix, temp, coconut] == [f"tiny: {rows}: 40 chains" for rows in ("Mix, Weak", "Temp", "COCONUT")]
    assert "method 'coconut' changes rows between epochs" in note
    before = _written()
    assert len({file.parent for file in before} - {Path(first.strip()), Path(second.strip())}) == 1  # COCONUT's chains
    done = ruplar(
        "study", study, "--only", "Mix,Weak,Temp", "--seeds", "1", "--jobs", "0", "--device", "cpu", "--json"
    )
    assert done.code == 0 and done.json["done"] == 3
    assert _written() == before


def test_recipes_and_studies_are_prepared_together_and_told_apart(ruplar, study, tmp_path):
    recipe = {"base": "embedded-no_cot", "name": "mine"}
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(recipe), encoding="utf-8")
    said = ruplar("data", "prepare", "mine.yaml", study, *WORDS, "--output", "kept/.encoded").out
    heads = [line.split(": 40 chains")[0] for line in said.splitlines() if line[0] != " "]
    assert heads == ["mine", "tiny: Mix, Weak", "tiny: Temp", "tiny: COCONUT"]
    assert len(list(Path("kept/.encoded").glob("[!.]*"))) == 4 and not ENCODED.exists()


def test_a_row_with_tries_is_prepared_for_each_of_them_at_every_value_of_its_grid(ruplar, tmp_path):
    made = cases(__file__, "tried") | {"set": SET}
    (tmp_path / "tiny.yaml").write_text(yaml.safe_dump(made, sort_keys=False), encoding="utf-8")
    said = ruplar("data", "prepare", "tiny.yaml").out.splitlines()
    rows = [f"A try name={name}, A instruction=Think." for name in ("mixture", "temperature")]
    rows += ["A instruction=Count."] * 2
    assert said[::2] == [f"tiny: {one}: 40 chains" for one in rows]
    assert {Path(line.strip()) for line in said[1::2]} == set(ENCODED.glob("[!.]*"))


def test_a_packaged_study_needs_no_run_to_start_from(ruplar):
    few = ["data.train.0.count=20", "data.valid.count=3"]
    alone = ["training.dataloader_num_workers=0", "training.dataloader_prefetch_factor=null"]
    said = ruplar("data", "prepare", "dates", *few, *alone).out.splitlines()
    rows = ["CoT-SFT", "No-CoT", "RuPLaR", "RuPLaR (one latent per result token)", "RuPLaR-plus"]
    assert said[::3] == [f"dates: {row}: 20 chains" for row in rows]
    assert {Path(line.strip()) for line in said[1::3]} == set(ENCODED.glob("[!.]*"))
    assert all("'runs/dates-cot-seed777' does not exist yet" in line for line in said[2::3])


def test_what_keeps_nothing_is_said_with_the_way_out(ruplar):
    said = ruplar("data", "prepare", "embedded-ruplar", *WORDS, "speed.pretokenize=false")
    assert said.code == 0 and "Add speed.pretokenize=true here and when training" in said.out and not ENCODED.exists()


@pytest.mark.parametrize(("words", "said"), cases(__file__, "mistakes"), ids=str)
def test_mistakes_are_told_before_anything_is_done(ruplar, tmp_path, words, said):
    (tmp_path / "file").write_text("")
    done = ruplar("data", "prepare", *words)
    assert done.code == 2 and said in done.err and not ENCODED.exists()


def test_no_name_is_both_a_recipe_and_a_study():
    from ruplar.config import recipes
    from ruplar.experiments.plan import studies

    assert not recipes().keys() & studies().keys()
