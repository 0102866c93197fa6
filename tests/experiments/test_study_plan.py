from pathlib import Path

import pytest
from cases import cases

from ruplar.errors import UserError
from ruplar.evaluate.record import differences, read_record, study_of
from ruplar.experiments.plan import load_study, plan, studies
from ruplar.experiments.storage import Places, recorded, status, write_study
from ruplar.experiments.study import folder_name
from ruplar.experiments.tries import picks_of
from ruplar.report import paper

ROWS = {"No-CoT": "embedded-no_cot", "Mix": {"recipe": "embedded-ruplar", "set": {"prior.operand_share": 0.3}}}


@pytest.mark.parametrize("name", sorted(studies()))
def test_a_cell_of_a_published_study_with_a_record_is_done(name, tmp_path):
    study, places = load_study(name), Places(Path(__file__).parents[2] / "results" / name, tmp_path)
    cells = plan(study, check_files=False, check_init=False, picks=picks_of(study, places))
    found = [status(cell, places, study) for cell in cells if recorded(cell, places)]
    assert found and set(found) == {"done"}


def test_every_row_has_a_cell_for_every_seed_and_seeds_come_whole(make_study):
    cells = plan(make_study(rows=ROWS, seeds=[1, 2]))
    assert [cell.name for cell in cells] == ["No-CoT-seed1", "Mix-seed1", "No-CoT-seed2", "Mix-seed2"]
    assert [cell.config.seed for cell in cells] == [1, 1, 2, 2]
    assert cells[1].config.prior.settings.operand_share == 0.3


def test_later_settings_win_recipe_study_row_grid_command_line(make_study):
    row = {"recipe": "embedded-ruplar", "set": {"prior.operand_share": 0.3, "method.prior_weight": 0.5}}
    study = make_study(rows={"Mix": row}, grid={"method.prior_weight": [1.0, 2.0]}, set={"prior.operand_share": 0.4})
    cells = plan(study, ["training.max_steps=7"])
    assert [cell.label for cell in cells] == ["Mix prior_weight=1.0", "Mix prior_weight=2.0"]
    assert cells[0].name == "Mix_prior_weight=1.0-seed1" and folder_name("A init=a/b", 2) == "A_init=a_b-seed2"
    assert [cell.config.method.settings.prior_weight for cell in cells] == [1.0, 2.0]
    assert {cell.config.prior.settings.operand_share for cell in cells} == {0.3}
    assert {cell.config.training["max_steps"] for cell in cells} == {7}


def test_a_row_may_ask_anothers_model_under_other_settings_of_its_method(make_study):
    rows = {"A": "embedded-ruplar", "B": {"of": "A", "set": {"method.max_latents": 2}}}
    first, second = plan(make_study(rows=rows))
    assert (second.of, second.inference, second.config.method.settings.max_latents) == ("A", {"max_latents": 2}, 2)
    assert first.config.method.settings.max_latents != 2
    rows["A"] = {"recipe": "embedded-ruplar", "grid": {"training.learning_rate": [0.1, 0.2]}}
    assert [cell.of for cell in plan(make_study(rows=rows))][2:] == ["A learning_rate=0.1", "A learning_rate=0.2"]


@pytest.mark.parametrize(("change", "said"), cases(__file__, "unequal"))
def test_rows_with_unequal_budgets_data_or_starts_are_refused_by_name(make_study, change, said):
    rows = {"A": "embedded-no_cot", "B": {"recipe": "embedded-no_cot", "set": change}}
    with pytest.raises(UserError) as refused:
        plan(make_study(rows=rows))
    assert said in str(refused.value) and "from controls:" in str(refused.value)


def test_a_problem_that_rows_share_is_reported_once(make_study):
    study = make_study(rows={label: "embedded-no_cott" for label in "ABCD"})
    with pytest.raises(UserError, match=r"all rows: unknown recipe 'embedded-no_cott'. Did") as refused:
        plan(study)
    assert len(refused.value.problems) == 1


def test_every_problem_of_a_study_is_told_at_once(tmp_path):
    (tmp_path / "x.yaml").write_text("name: x\nseed: [1]\nrows: {A: {recipe: cot, of: B}}\non: []\ncontrols: [date]\n")
    with pytest.raises(UserError) as refused:
        load_study(str(tmp_path / "x.yaml"))
    said = str(refused.value)
    assert "unknown section 'seed'. Did you mean 'seeds'" in said
    assert "rows.A" in said and "exactly one of recipe:" in said
    assert "on: " in said and "controls.0: must be 'data'" in said


@pytest.mark.parametrize(("entries", "said"), cases(__file__, "unplanned"))
def test_what_would_fail_after_training_is_told_before(make_study, entries, said):
    with pytest.raises(UserError) as refused:
        plan(make_study(rows=ROWS, **entries))
    assert said in str(refused.value)


def test_the_reference_of_a_row_is_the_one_with_the_same_values_of_the_grid(make_study, places):
    rows = {"A": "embedded-ruplar", "B": {"recipe": "embedded-ruplar", "grid": {"prior.operand_share": [0.1]}}}
    study = make_study(rows=rows, grid={"training.max_steps": [2, 4]}, reference="A", controls=["data"])
    first, *_, last = study.references().items()
    assert (first, last) == (("A max_steps=2",) * 2, ("B max_steps=4 operand_share=0.1", "A max_steps=4"))
    write_study(study, plan(study), places)
    assert study_of(places.results)["rows"]["B_max_steps=4_operand_share=0.1"]["reference"] == "A max_steps=4"
    alone = make_study(rows={"A": "embedded-ruplar", "B": {**rows["B"], "reference": "A"}})
    assert alone.references() == {"B operand_share=0.1": "A"}


@pytest.mark.parametrize(("text", "said"), cases(__file__, "refused"))
def test_a_study_that_cannot_be_is_refused(tmp_path, text, said):
    (tmp_path / "x.yaml").write_text(text)
    with pytest.raises(UserError) as refused:
        load_study(str(tmp_path / "x.yaml"))
    assert said in str(refused.value)


def test_the_papers_tables_and_sweeps_are_shipped_and_described():
    wanted = {"main", "priors", "prior-strength", "losses", "k2", "gumbel", "lambda", "efficiency", "qwen-0.5b"}
    assert wanted <= set(studies())
    assert all(line.endswith(".") and len(line) > 30 for line in studies().values())


@pytest.mark.parametrize("name", sorted(studies()))
def test_a_shipped_study_plans(name):
    study = load_study(name)
    assert study.name == name
    cells = plan(study, check_files=False)
    assert len(cells) == len({cell.name for cell in cells}) >= 3 * len(study.seeds)
    known = paper.printed_rows()
    assert {cell.printed for cell in cells} - {None} <= known.keys()
    assert set(study.printed) <= {cell.label for cell in cells}
    assert set(study.not_run.values()) <= known.keys() and not set(study.not_run) & {cell.label for cell in cells}


RESULTS = Path(__file__).parents[2] / "results"


@pytest.mark.parametrize("name", sorted(studies()))
def test_every_record_was_made_with_the_settings_of_its_row(name):
    """A row of a study file is exactly what made its records: same data, model, training and evaluation settings."""
    study = load_study(name)
    picks = picks_of(study, Places(RESULTS / name, RESULTS / name))
    cells = {(cell.label, cell.seed): cell for cell in plan(study, check_files=False, picks=picks)}
    for file in sorted((RESULTS / name).glob("*/run.json")):
        record = read_record(file)
        if record.study == name and record.train_seconds is not None:  # None: only an evaluation of a saved soup
            cell = cells.get((record.name, record.seed))
            assert cell is not None, f"{file}: no row '{record.name}' with seed {record.seed}"
            assert differences(record.config, cell.config.as_dict()) == [], file
