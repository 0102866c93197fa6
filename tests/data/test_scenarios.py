"""Sets divided by scenario, and wrong gold chains: listed, refused in training, counted in a benchmark."""

from types import SimpleNamespace

import pytest

from ruplar import plugins
from ruplar.data.check import check_chains
from ruplar.data.scenarios import part_of_scenario
from ruplar.data.sources import SourceConfig, generator, open_source
from ruplar.errors import UserError

DATES, LOGIC, ARITHMETIC = (plugins.make("domains", name) for name in ("dates", "logic", "arithmetic"))
PARTS = ("train", "valid", "test")
BY_SCENARIO = SourceConfig.model_validate("date-understanding-by-scenario")

SETS = ("date-understanding-train", "date-understanding")


@pytest.fixture(params=["invented", "real"])
def facts(request, data, benchmark_data):
    """What is known of the two files of Date Understanding: of our small ones; and of the real ones, where they are there.

    Pairs are of the training and the test file, triples of train, valid and test when divided by scenario. Of the real files: 41
    texts of 9 questions, two of which differ only in who is right and are one scenario.
    """
    if request.param == "invented":
        return SimpleNamespace(
            folder=data, rows=(11, 5), wrong=(3, 1), wrong_steps=2, at=(2, 4), counts=(4, 5, 3), scenarios=(2, 2, 1), prosqa=(2, 3, 1)
        )  # fmt: skip
    return SimpleNamespace(
        folder=benchmark_data(*SETS, "prosqa-valid"),
        rows=(295, 74), wrong=(22, 6), wrong_steps=3, at=(63, 9), counts=(206, 36, 99), scenarios=(23, 4, 10), prosqa=(213, 32, 55),
    )  # fmt: skip


def opened(source, split, folder, domain=DATES, **rules):
    return open_source(SourceConfig.model_validate(source), domain, split=split, data_dir=folder, **rules)


def test_the_scenario_split_has_no_scenario_in_two_parts_and_loses_no_row(facts):
    kept = {part: opened(BY_SCENARIO, part, facts.folder, skip_bad=True) for part in PARTS}
    told = {part: {DATES.scenario(e.question) for e in found.examples} for part, found in kept.items()}
    assert all(part_of_scenario(scenario) == part for part, some in told.items() for scenario in some)
    assert tuple(len(found.examples) for found in kept.values()) == facts.counts
    assert tuple(found.record["scenarios"] for found in kept.values()) == facts.scenarios
    lost = sum(sum(found.record["left_out"].values()) for found in kept.values())
    assert sum(facts.counts) + lost == sum(facts.rows)


def test_the_papers_split_is_still_there_and_leaks(facts):
    train, test = (opened(name, "test", facts.folder) for name in SETS)
    known = {DATES.scenario(e.question) for e in train.examples}
    assert (len(train.examples), len(test.examples)) == facts.rows
    assert all(DATES.scenario(e.question) in known for e in test.examples)


def test_data_check_lists_the_wrong_chains(facts):
    found = check_chains("date-understanding", DATES, data_dir=facts.folder)
    assert len(found.found["wrong_chains"]) == facts.wrong[1]
    assert f"date-understanding-test.jsonl:{facts.at[0]}" in found.text(show=10)
    train = check_chains("date-understanding-train", DATES, data_dir=facts.folder).as_dict()
    assert (len(train["wrong_steps"]), len(train["wrong_chains"])) == (facts.wrong_steps, facts.wrong[0])
    assert train["wrong_steps"][1]["at"] == f"date-understanding-train.jsonl:{facts.at[1]}"


def test_any_file_can_be_divided_by_what_its_questions_tell(facts, data):
    config = {"source": "prosqa-valid", "split_by": "scenario"}
    found = {part: opened(config, part, facts.folder, LOGIC).examples for part in PARTS}
    assert tuple(len(rows) for rows in found.values()) == facts.prosqa
    fewer = facts.prosqa[0] - 1
    assert len(opened({**config, "count": fewer}, "train", facts.folder, LOGIC).examples) == fewer
    with pytest.raises(UserError, match="'arithmetic' does not define scenarios"):
        opened({"source": "svamp", "split_by": "scenario"}, "test", data, ARITHMETIC, need_steps=False)


@pytest.mark.parametrize(
    ("source", "domain"), [("date-problems", LOGIC), ("logic-problems", ARITHMETIC), ("word-problems", DATES)]
)
def test_problems_of_one_domain_are_not_read_by_the_rules_of_another(source, domain):
    with pytest.raises(UserError, match="Set data.domain"):
        open_source(SourceConfig(source=source, count=3, seed=1), domain)


def test_problems_of_every_domain_can_be_written_to_a_file_that_checks(tmp_path):
    from typer.testing import CliRunner

    from ruplar.cli.verbs import app

    for domain in ("dates", "logic"):
        file = str(tmp_path / f"{domain}.jsonl")
        done = CliRunner().invoke(app, ["data", "make", file, "--count", "20", "--domain", domain])
        assert done.exit_code == 0, done.output
        found = check_chains(file, plugins.make("domains", domain))
        assert found.examples == 20 and not any(found.found.values())
    with pytest.raises(UserError, match="Did you mean 'dates'"):
        generator("date")
