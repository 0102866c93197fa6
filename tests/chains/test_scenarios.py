"""Sets divided by scenario, and wrong gold chains: listed, refused in training, counted in a benchmark."""

import pytest
from pydantic import ValidationError

from ruplar import plugins
from ruplar.chains.check import check_chains
from ruplar.chains.scenarios import part_of_scenario
from ruplar.chains.sources import SourceConfig, generator, open_source
from ruplar.errors import UserError

DATES, LOGIC, ARITHMETIC = (plugins.make("domains", name) for name in ("dates", "logic", "arithmetic"))
BY_SCENARIO = SourceConfig.model_validate("date-understanding-by-scenario")

COUNTS = {"train": 206, "valid": 36, "test": 99}
SCENARIOS = {"train": 23, "valid": 4, "test": 10}


def opened(source, split, shared_data, domain=DATES, **rules):
    return open_source(SourceConfig.model_validate(source), domain, split=split, data_dir=shared_data, **rules)


def test_the_scenario_split_has_no_scenario_in_two_parts_and_loses_no_row(shared_data):
    kept = {part: opened(BY_SCENARIO, part, shared_data, skip_bad=True) for part in ("train", "valid", "test")}
    told = {part: {DATES.scenario(e.question) for e in found.examples} for part, found in kept.items()}
    assert not told["train"] & told["valid"] and not told["train"] & told["test"] and not told["valid"] & told["test"]
    # 41 texts of 9 questions: 25, 4 and 12; two of test differ only in who is right and are one scenario. Two scenarios and a row of
    # train are wrong, one of test is
    assert {part: len(found.examples) for part, found in kept.items()} == COUNTS
    assert {part: found.record["scenarios"] for part, found in kept.items()} == SCENARIOS
    lost = sum(sum(found.record["left_out"].values()) for found in kept.values())
    assert sum(COUNTS.values()) + lost == 369


def test_a_scenarios_part_does_not_depend_on_what_else_was_read(tmp_path, shared_data):
    # with the wrong chains kept (as a benchmark keeps them) and left out (as training must) the parts are the same
    every = {
        DATES.scenario(e.question): part_of_scenario(DATES.scenario(e.question))
        for e in opened("date-understanding-train", "test", shared_data).examples
    }
    for part in ("train", "valid", "test"):
        for example in opened(BY_SCENARIO, part, shared_data, skip_bad=True).examples:
            assert every[DATES.scenario(example.question)] == part


def test_the_papers_split_is_still_there_and_leaks(shared_data):
    train, test = (opened(n, "test", shared_data) for n in ("date-understanding-train", "date-understanding"))
    known = {DATES.scenario(e.question) for e in train.examples}
    assert (len(train.examples), len(test.examples)) == (295, 74)
    assert all(DATES.scenario(e.question) in known for e in test.examples)


def test_data_check_says_that_the_papers_split_leaks_and_lists_the_wrong_chains(shared_data):
    found = check_chains("date-understanding", DATES, data_dir=shared_data)
    assert any("leaks: 74 of these 74" in remark for remark in found.remarks)
    assert len(found.wrong_chains) == 6 and "date-understanding-test.jsonl:63" in found.text(show=10)
    train = check_chains("date-understanding-train", DATES, data_dir=shared_data).as_dict()
    assert (len(train["wrong_steps"]), len(train["wrong_chains"])) == (3, 22)
    assert train["wrong_steps"][1]["at"] == "date-understanding-train.jsonl:9"


def test_wrong_chains_are_no_training_rows_and_are_counted_in_a_benchmark(shared_data):
    with pytest.raises(UserError, match="22 of 295 chains are wrong.*:1 Thanksgiving.*skip_bad: true"):
        opened("date-understanding-train", "train", shared_data)
    kept = opened("date-understanding-train", "train", shared_data, skip_bad=True)
    assert len(kept.examples) == 273 and kept.record["left_out"] == {"wrong chain": 22}
    asked = opened("date-understanding", "test", shared_data)
    assert len(asked.examples) == 74 and asked.record["wrong_kept"] == 6


def test_any_file_can_be_divided_by_what_its_questions_tell(tmp_path, shared_data):
    config = {"source": "prosqa-valid", "split_by": "scenario"}
    found = {part: opened(config, part, shared_data, LOGIC).examples for part in ("train", "valid", "test")}
    assert {part: len(rows) for part, rows in found.items()} == {"train": 213, "valid": 32, "test": 55}
    assert len(opened({**config, "count": 7}, "test", shared_data, LOGIC).examples) == 7
    with pytest.raises(UserError, match="'arithmetic' does not say what a scenario is"):
        opened({"source": "svamp", "split_by": "scenario"}, "test", shared_data, ARITHMETIC, need_steps=False)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"source": "date-problems", "families": ["farm"]}, "families can be set for 'word-problems' only"),
        ({"source": "date-problems", "split_by": "scenario"}, "split_by cannot be set for 'date-problems'"),
        ({"source": "date-problems:farm"}, "'date-problems' has no families"),
        ({"source": "date-understanding-by-scenario", "split_by": None}, "is divided by scenario"),
        ({"source": "a.jsonl", "split_by": "day"}, "Input should be 'scenario'"),
    ],
)
def test_settings_that_do_not_fit_are_refused(settings, message):
    with pytest.raises(ValidationError, match=message):
        SourceConfig.model_validate(settings)


@pytest.mark.parametrize(
    ("source", "domain"), [("date-problems", LOGIC), ("logic-problems", ARITHMETIC), ("word-problems", DATES)]
)
def test_problems_of_one_domain_are_not_read_by_the_rules_of_another(source, domain):
    with pytest.raises(UserError, match="Set data.domain"):
        open_source(SourceConfig(source=source, count=3, seed=1), domain)


@pytest.mark.parametrize(("source", "domain"), [("date-problems", DATES), ("logic-problems", LOGIC)])
def test_generated_problems_are_written_on_demand(source, domain):
    config = SourceConfig(source=source, count=1_000_000, seed=5)
    found = open_source(config, domain, split="train")
    assert len(found.examples) == 1_000_000 and found.record["source"] == source
    example = found.examples[999_999]
    assert tuple(domain.split(example.chain)) == example.steps
    assert domain.same("".join(domain.result(example.steps[-1])), example.answer)


def test_problems_of_every_domain_can_be_written_to_a_file_that_checks(tmp_path):
    from typer.testing import CliRunner

    from ruplar.cli.verbs import app

    for domain in ("dates", "logic"):
        file = str(tmp_path / f"{domain}.jsonl")
        done = CliRunner().invoke(app, ["data", "make", file, "--count", "20", "--domain", domain])
        assert done.exit_code == 0, done.output
        found = check_chains(file, plugins.make("domains", domain))
        assert (found.examples, found.wrong_steps, found.wrong_chains, found.unchecked, found.wrong_ends) == (
            20,
            [],
            [],
            [],
            [],
        )
    with pytest.raises(UserError, match="Did you mean 'dates'"):
        generator("date")
