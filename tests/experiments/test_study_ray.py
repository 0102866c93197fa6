"""`ruplar study --ray` on a real cluster of two nodes, one of which is killed in the middle of a cell."""

import threading
from pathlib import Path

import pytest
import yaml
from test_study_kill import curve, undisturbed, until
from tiny import TINY

from ruplar.evaluate.record import SAMPLES
from ruplar.experiments import storage


def node_of(cell: Path, cluster):
    """Return the node whose worker holds the lock of a cell."""
    lock = (cell / ".lock").stat().st_ino
    [holder] = [row.split()[4] for row in Path("/proc/locks").read_text().splitlines() if f":{lock} " in row]
    for node in cluster.worker_nodes:
        raylet = node.all_processes["raylet"][0].process.pid
        if any(holder in file.read_text().split() for file in Path(f"/proc/{raylet}/task").glob("*/children")):
            return node
    raise AssertionError("no node runs the cell")


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/locks").is_file(), reason="finds the node of a cell through /proc")
def test_a_study_loses_and_doubles_no_cell_when_a_node_is_killed(cluster, ruplar, tmp_path):
    entries = {"name": "tiny", "seeds": [1], "on": [{"source": "word-problems", "count": 4}]}
    entries["rows"] = {"Short": {"of": "Mix", "set": {"method.max_latents": 1}}, "Mix": "embedded-ruplar"}
    entries["rows"]["No-CoT"] = "embedded-no_cot"
    entries["set"] = {**TINY, "training.max_steps": 24, "training.save_steps": 4}
    (tmp_path / "tiny.yaml").write_text(yaml.safe_dump(entries, sort_keys=False))
    killed = []

    def kill_in_the_middle():
        [checkpoint, *_] = until(lambda: list(tmp_path.glob("runs/tiny/Mix-*/checkpoint-*")))
        cluster.remove_node(node_of(checkpoint.parent, cluster), allow_graceful=False)
        assert not (checkpoint.parent / storage.TRAINED).exists(), "it is not the middle"
        killed.append(checkpoint.parent)

    killer = threading.Thread(target=kill_in_the_middle, daemon=True)
    killer.start()
    said = ruplar("study", "tiny.yaml", "--device", "cpu", "--ray", cluster.address)
    killer.join(60)
    assert said.code == 0, said.out + said.err
    [cell] = killed
    assert (cell / storage.LOG).read_text().count("step 01/24") == 1, "it did not resume"
    whole = undisturbed(tmp_path, "other/results", "other/runs")
    assert not (whole.failed or whole.left)
    for cell in ("Mix-seed1", "Short-seed1", "No-CoT-seed1"):
        assert said.err.count(f"done     {cell}") == 1
        one, two = tmp_path / "results" / "tiny" / cell, tmp_path / "other" / "results" / cell
        assert (one / SAMPLES).read_bytes() == (two / SAMPLES).read_bytes()
        assert curve(one) == curve(two) and len(curve(one)) == 24
