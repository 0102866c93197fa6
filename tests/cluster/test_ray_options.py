"""Options of `--ray` that are refused, each with what to do instead."""

import socket
import sys

import pytest

EVALUATE = ("evaluate", "embedded", "--on", "word-problems", "--limit", "1")


def test_gpus_need_a_cluster_and_timings_at_batch_size_1_none(refused):
    assert "--gpus: needs --ray" in refused(*EVALUATE, "--gpus", "0.5")
    assert "--batch1: has no effect on a Ray cluster" in refused(*EVALUATE, "--ray", "auto", "--batch1", "5")


@pytest.mark.slow  # imports torch
def test_without_the_package_ray_the_extra_is_named(refused, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    assert "--ray needs the package ray. Install the extra 'ray'" in refused(*EVALUATE, "--ray", "auto")


@pytest.mark.slow  # imports Ray
def test_an_address_where_nothing_listens_is_refused_at_once(refused):
    pytest.importorskip("ray")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
        said = refused(*EVALUATE, "--ray", address)
    assert f"cannot connect to a Ray cluster at '{address}'" in said and "ray start --head" in said
