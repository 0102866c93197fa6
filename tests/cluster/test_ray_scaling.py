"""Fractions of a GPU and autoscaling on a real cluster; Ray counts the GPUs of a node, so a test can claim one."""

from __future__ import annotations

import os
import time

import pytest

from ruplar.cluster.pool import Pool, connected

pytestmark = pytest.mark.long


def test_two_workers_share_a_gpu_and_see_no_other(cluster):
    cluster.add_node(num_cpus=4, num_gpus=1)

    def make():
        def run(batch):
            import ray

            time.sleep(1)
            return os.getpid(), ray.get_gpu_ids(), os.environ["CUDA_VISIBLE_DEVICES"]

        return run

    with connected(cluster.address) as ray, Pool(ray, make, gpus=0.5) as pool:
        found = list(pool.map(range(8)))
    assert pool.most == 2, "six CPUs, but half a GPU each"
    assert len({pid for pid, _, _ in found}) == 2
    assert {(tuple(ids), seen) for _, ids, seen in found} == {((0,), "0")}
