"""`--ray` on a real cluster of two nodes, one of which is killed in the middle: the results of a single process."""

import json
import os
import time

import pytest

from ruplar.cluster.pool import Pool, connected
from ruplar.evaluate.record import read_record, read_samples

pytestmark = pytest.mark.long
TIMING = {"ms_per_question", "warm_up_s", "peak_gb", "workers"}


@pytest.fixture
def killed(cluster, monkeypatch):
    """Ids of the nodes that were killed: that of a worker that has a batch, once three batches are given out."""
    from ray._private.state import actors

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


def without_probabilities(samples):
    """Samples without the probabilities of latents, whose last digit depends on the batch."""
    return [{**row, "latents": [latent["tokens"][0] for latent in row["latents"]]} for row in samples]


def test_evaluate_gives_the_same_answers_and_scores_when_a_node_is_killed(cluster, killed, ruplar):
    words = ["evaluate", "embedded", "--on", "word-problems", "--limit", "60", "--batch-size", "8", "--device", "cpu"]
    words += ["--temperature", "0.7"]  # every question has its own random stream
    alone = ruplar(*words, "--output", "alone")
    assert alone.code == 0, alone.err
    spread = ruplar(*words, "--output", "spread", "--ray", cluster.address)
    assert spread.code == 0, spread.err
    assert len(killed) == 1
    assert without_probabilities(read_samples("spread")) == without_probabilities(read_samples("alone"))
    [one], [two] = read_record("alone").benchmarks, read_record("spread").benchmarks
    assert two.model_dump(exclude=TIMING) == one.model_dump(exclude=TIMING)


def test_augment_and_convert_write_the_same_files_when_a_node_is_killed(cluster, killed, ruplar, tmp_path):
    made = ruplar("data", "make", "chains.jsonl", "--count", "200", "--steps", "1,3")
    assert made.code == 0, made.err
    prose = [
        {"question": f"{n} bags of 4?", "answer": f"It is {n} * 4 = {4 * n}. #### {4 * n + n % 2}"} for n in range(200)
    ]
    (tmp_path / "prose.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in prose))
    for verb, source, *options in (
        ("augment", "chains.jsonl", "--count", "900", "--per-chain", "8"),  # more than some chains can give
        ("convert", "prose.jsonl"),
    ):
        killed.clear()
        while len(cluster.worker_nodes) < 2:
            cluster.add_node(num_cpus=1)
        alone = ruplar("data", verb, source, "alone.jsonl", *options, "--json")
        spread = ruplar("data", verb, source, "spread.jsonl", *options, "--json", "--ray", cluster.address)
        assert (alone.code, spread.code) == (0, 0), spread.err
        assert len(killed) == 1
        assert spread.out.replace("spread.jsonl", "alone.jsonl") == alone.out
        for file in tmp_path.glob("alone.jsonl*"):
            assert file.read_bytes() == (tmp_path / file.name.replace("alone", "spread")).read_bytes(), file.name
            file.unlink()
            (tmp_path / file.name.replace("alone", "spread")).unlink()


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
