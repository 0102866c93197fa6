import pytest
from cases import cases
from pydantic import ValidationError

from ruplar import plugins
from ruplar.data.sources import TEST_COUNT, TEST_SEED, SourceConfig, open_source


@pytest.fixture(scope="module")
def arithmetic():
    return plugins.make("domains", "arithmetic")


def source(**settings):
    return SourceConfig.model_validate(settings)


def test_a_bare_name_is_a_source_and_asks_the_test_problems():
    config = SourceConfig.model_validate("word-problems")
    assert (config.seed, config.families, config.count) == (TEST_SEED, None, None)


def test_generated_problems_are_written_on_demand_and_are_the_same_alone_as_in_order(arithmetic):
    opened = open_source(source(source="word-problems", count=1_000_000, seed=5), arithmetic)
    assert len(opened.examples) == 1_000_000  # none is made until it is asked for
    few = open_source(source(source="word-problems", count=3, seed=5), arithmetic).examples
    assert list(few) == [opened.examples[i] for i in range(3)]
    assert len(open_source(SourceConfig.model_validate("word-problems"), arithmetic).examples) == TEST_COUNT


def test_records_of_problems_that_a_seed_no_longer_stands_for_are_told_apart(arithmetic):
    from ruplar.train.dataset import fingerprint_of

    entry = SourceConfig(source="logic-problems", count=3, seed=4)
    opened = open_source(entry, plugins.make("domains", "logic"), need_steps=True)
    assert fingerprint_of(opened.record) == "seed 4, 3 examples, revision 2"
    plain = open_source(SourceConfig(source="word-problems", count=3, seed=4), arithmetic, need_steps=True)
    assert fingerprint_of(plain.record) == "seed 4, 3 examples"  # records of before are of these still


def test_a_family_is_named_after_a_colon_and_held_out_ones_together(arithmetic):
    from ruplar.problems.word_problems import FAMILIES, HELD_OUT

    name = sorted(FAMILIES)[0]
    assert SourceConfig.model_validate(f"word-problems:{name}").families == (name,)
    assert SourceConfig.model_validate("word-problems:held-out").families == tuple(HELD_OUT)


def test_a_file_is_read_up_to_its_count(arithmetic, tmp_path):
    file = tmp_path / "mine.txt"
    file.write_text("".join(f"What is {i}+1?||<<{i}+1={i + 1}>> #### {i + 1}\n" for i in range(5)))
    opened = open_source(source(source=str(file), count=2), arithmetic)
    assert [example.answer for example in opened.examples] == ["1", "2"]
    assert opened.record["examples"] == 2


@pytest.mark.parametrize(("settings", "message"), cases(__file__, "refused"))
def test_settings_that_do_not_fit_the_source_are_refused(settings, message):
    with pytest.raises(ValidationError, match=message):
        source(**settings)
