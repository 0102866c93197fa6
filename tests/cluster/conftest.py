"""A node of the cluster that is killed in the middle of a command."""

from __future__ import annotations

import pytest


@pytest.fixture
def killed(cluster, monkeypatch):
    """Ids of the nodes that were killed: that of a worker that has a batch, once three batches are given out."""
    from ray._private.state import actors

    from ruplar.cluster.pool import Pool

    start, done = Pool._start, []

    def start_and_kill(self, batches, waiting):
        start(self, batches, waiting)
        busy = [actor for actor, at in self.running.values() if at is not None]
        if not done and busy and len(batches) - len(waiting) >= 3:
            assert waiting, "it is not the middle"
            worker = busy[-1]
            done.append(actors(worker._actor_id.hex())["Address"]["NodeID"])
            [node] = [node for node in cluster.worker_nodes if node.node_id == done[0]]
            cluster.remove_node(node, allow_graceful=False)

    monkeypatch.setattr(Pool, "_start", start_and_kill)
    return done
