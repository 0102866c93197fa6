"""ICoT: which tokens are removed when, the labels, and that nothing is written in the end."""

import pytest
from overfitting import small_backbone, tools_of

from ruplar import plugins
from ruplar.types import Example, SampleContext

EXAMPLE = Example("3+4, then times 2?", ("3+4=7", "7*2=14"), "14")


@pytest.fixture(scope="module")
def backbone():
    return small_backbone()


def icot(**settings):
    # practically no removal offset: e^-50
    return plugins.make("methods", "icot", {"smoothing": 50.0, **settings})


def thought_of(backbone, item) -> list[int]:
    """The ids between the markers."""
    return item.ids[item.ids.index(backbone.think_id) + 1 : item.ids.index(backbone.end_think_id)]


def test_the_chain_is_removed_from_its_start_with_the_progress(backbone):
    tools, method = tools_of(backbone), icot(removed_by=0.5, remove_all_from=10)
    chain = tools.encode("<<3+4=7>> <<7*2=14>>")
    assert len(chain) > 10
    for progress, removed in ((0.0, 0), (0.049, 0), (0.05, 1), (0.249, 4), (0.25, 5), (0.499, 9)):
        item = method.encode(EXAMPLE, tools, SampleContext(0, 0, progress))
        assert thought_of(backbone, item) == chain[removed:], progress
        assert method.stage(progress) == removed
    for progress in (0.5, 0.7, 0.999):
        assert thought_of(backbone, method.encode(EXAMPLE, tools, SampleContext(0, 0, progress))) == []
        assert method.stage(progress) == 10


def test_everything_after_think_has_a_label_and_nothing_before(backbone):
    item = icot().encode(EXAMPLE, tools_of(backbone), SampleContext(0, 0, 0.1))
    start = item.ids.index(backbone.think_id) + 1
    assert item.labels == [-100] * start + item.ids[start:]
    assert item.ids[-1] == backbone.eos_id and item.latent_at == []


@pytest.mark.slow
def test_removal_offsets_follow_the_published_distribution(backbone):
    tools, method = tools_of(backbone), plugins.make("methods", "icot")
    full = len(tools.encode("<<3+4=7>> <<7*2=14>>"))

    def offset(epoch, row):
        return full - len(thought_of(backbone, method.encode(EXAMPLE, tools, SampleContext(epoch, row))))

    drawn = [offset(0, row) for row in range(3000)]
    # P(o = 0) = 1 - e^-4 = 0.9817, so 55 ± 7 of 3000 have an offset; P(o >= 2) = e^-8, so one
    assert 25 <= sum(o >= 1 for o in drawn) <= 85 and sum(o >= 2 for o in drawn) <= 6
    assert drawn == [offset(0, row) for row in range(3000)]
    assert drawn != [offset(1, row) for row in range(3000)]
