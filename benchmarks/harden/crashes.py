"""kill -9 during training, studies, augmentation and fetching; full, read-only and forbidden disks for every verb that writes."""

from __future__ import annotations

import hashlib
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tally import Tally

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
DATA = TESTS / "fixtures" / "data" / "gsm8k-train.jsonl"
TIMING = ("tokens_per_second", "memory_gb")
NOBODY = 65534


def _curve(file: Path) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    return [{key: value for key, value in row.items() if key not in TIMING} for row in rows]


def kill_training(count: int, draw: random.Random, folder: Path) -> Tally:
    """The script of the tests, until it has killed often enough."""
    tally = Tally("kill -9 while training", "resumed weights and curve equal, bit for bit")
    while tally.tried < count:
        runs = folder / f"runs{tally.tried}"
        words = [sys.executable, TESTS / "train" / "train_and_die.py", runs, str(count), str(draw.randrange(10**6))]
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
        if done.returncode:
            tally.failures.append(done.stderr[-1500:])
            return tally
        tally.tried += int(done.stdout.split("killed ")[-1].split()[0])
        for name in ("model/adapter_model.safetensors", "model/ruplar.json"):
            if (runs / "whole" / name).read_bytes() != (runs / "killed" / name).read_bytes():
                tally.failures.append(f"{name} differs in {runs}")
        if _curve(runs / "whole" / "metrics.jsonl") != _curve(runs / "killed" / "metrics.jsonl"):
            tally.failures.append("the curve differs")
    return tally


def _kill(tally: Tally, count: int, draw: random.Random, attempt: Callable[[Path], None], folder: Path) -> None:
    """Kill attempts at random moments, each resuming the last, and compare the results with an undisturbed one."""
    sys.path.insert(0, str(TESTS / "train"))
    from train_and_die import fork, wait

    whole = folder / "whole"
    whole.mkdir()
    began = time.monotonic()
    if wait(fork(attempt, whole)) != 0:
        tally.failures.append("the undisturbed run failed")
        return
    seconds, wanted, turn = time.monotonic() - began, _digests(whole), 0
    while tally.tried < count:
        again, turn = folder / f"killed{turn}", turn + 1
        again.mkdir()
        for _ in range(3):
            if wait(fork(attempt, again), draw.uniform(0.05, 0.95) * seconds) == 0:
                break
            tally.tried += 1
            partial = {name: value for name, value in _digests(again).items() if wanted.get(name) != value}
            if partial:
                tally.failures.append(f"half written: {sorted(partial)}")
        if wait(fork(attempt, again)) != 0 or _digests(again) != wanted:
            tally.failures.append("the resumed result differs")


def _digests(folder: Path) -> dict[str, str]:
    """Return the hash of each result: what a user would read, not drafts, logs and times."""
    found = {}
    for file in sorted(folder.rglob("*")):
        name = str(file.relative_to(folder))
        if file.is_file() and file.name in ("samples.jsonl.gz", "out.jsonl", "tokenizer.json", "model.safetensors"):
            found[name] = hashlib.sha256(file.read_bytes()).hexdigest()
    return {name: value for name, value in found.items() if "/." not in f"/{name}" and "checkpoint-" not in name}


def _silent() -> None:
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)


def _command(*words: Any) -> None:
    """Run `ruplar WORDS` in this process."""
    from ruplar.cli import main

    sys.argv = ["ruplar", *map(str, words)]
    try:
        main()
    except SystemExit as error:
        if error.code:
            raise


def kill_study(count: int, draw: random.Random, folder: Path) -> Tally:
    """A study of two rows, trained and evaluated in one process."""
    sys.path.insert(0, str(TESTS / "experiments"))
    from tiny import run, tiny_study

    import ruplar.experiments.run  # noqa: F401  (imported before forking)
    from ruplar.experiments.storage import Places

    settings = {"training.max_steps": 12, "training.save_steps": 3}
    rows = {"Mix": "embedded-ruplar", "Short": {"of": "Mix", "set": {"method.max_latents": 1}}}

    def attempt(place: Path) -> None:
        _silent()
        run(tiny_study(rows=rows, set=settings), Places(place / "results", place / "runs"))

    tally = Tally("kill -9 during a study", "resumed samples and weights equal, bit for bit")
    _kill(tally, count, draw, attempt, folder)
    return tally


def kill_augment(count: int, draw: random.Random, folder: Path) -> Tally:
    """`ruplar data augment`."""
    import ruplar.data.augment  # noqa: F401

    def attempt(place: Path) -> None:
        _silent()
        _command("data", "augment", DATA, place / "out.jsonl", "--count", 400, "--force")

    tally = Tally("kill -9 during data augment", "the file is whole or absent; repeated, equal")
    _kill(tally, count, draw, attempt, folder)
    return tally


def kill_convert(count: int, draw: random.Random, folder: Path) -> Tally:
    """`ruplar data convert` of 1,500 written solutions."""
    import ruplar.data.convert  # noqa: F401

    source = folder / "solutions.jsonl"
    rows = DATA.read_text(encoding="utf-8").splitlines()
    source.write_text("".join(f"{rows[i % len(rows)]}\n" for i in range(1500)), encoding="utf-8")

    def attempt(place: Path) -> None:
        _silent()
        _command("data", "convert", source, place / "out.jsonl")

    tally = Tally("kill -9 during data convert", "the file is whole or absent; repeated, equal")
    _kill(tally, count, draw, attempt, folder)
    return tally


def kill_fetch(count: int, draw: random.Random, folder: Path) -> Tally:
    """`ruplar fetch` of a small GGUF file."""
    source = _tiny_backbone(folder)

    def attempt(place: Path) -> None:
        _silent()
        _command("fetch", "tiny", "--from", source, "--cache", place)

    tally = Tally("kill -9 during fetch", "the folder is whole or absent; repeated, equal")
    _kill(tally, count, draw, attempt, folder)
    return tally


def _tiny_backbone(folder: Path) -> Path:
    """Write a GGUF file and make it the known backbone `tiny`."""
    sys.path.insert(0, str(TESTS))
    from tiny_gguf import write_gguf

    from ruplar.model import from_gguf
    from ruplar.model.fetch import KNOWN, Known

    file, made = write_gguf(folder / "tiny.gguf"), folder / "made"
    made.mkdir()
    from_gguf.convert(file, made)
    known = {
        "weights": from_gguf.weights_hash(made),
        "tokenizer": from_gguf.files_hash(made, from_gguf.TOKENIZER),
        "config": from_gguf.files_hash(made, from_gguf.CONFIG),
    }
    gguf = hashlib.sha256(file.read_bytes()).hexdigest()
    KNOWN["tiny"] = Known("A tiny one.", "nobody/tiny", ("tiny==1.0",), "", 1, gguf=gguf, **known)
    return file


def disk(count: int, draw: random.Random, folder: Path) -> list[Tally]:
    """Every verb that writes, on a full disk, in a read-only folder and in a folder of another user."""
    import matplotlib.figure  # noqa: F401  (imported before forking: nobody may not read this Python)
    import torch  # noqa: F401
    import yaml

    import ruplar.cli  # noqa: F401
    from ruplar.model.store import find_model

    sys.path.insert(0, str(TESTS / "experiments"))
    from tiny import TINY

    source = _tiny_backbone(folder)
    shutil.copytree(find_model("embedded:ruplar"), folder / "copy")
    study = {"name": "tiny", "seeds": [1], "on": [{"source": "word-problems", "count": 4}], "set": TINY}
    (folder / "tiny.yaml").write_text(yaml.safe_dump({**study, "rows": {"Mix": "embedded-ruplar"}}))
    folder.chmod(0o755)
    tiny = ("training.max_steps=2", "training.warmup_steps=1", "data.train.0.count=20", "data.train.1.count=20")
    record = ROOT / "results" / "main" / "RuPLaR-plus-seed1"
    cpu = ("--device", "cpu")
    verbs: dict[str, tuple[Any, ...]] = {
        "data make": ("data", "make", "out.jsonl", "--count", 50),
        "data augment": ("data", "augment", DATA, "out.jsonl", "--count", 50),
        "data convert": ("data", "convert", DATA, "out.jsonl"),
        "data prepare": ("data", "prepare", "embedded-live", "speed.pretokenize=true", *tiny, "--output", "encoded"),
        "train": ("train", "embedded-live", *tiny, *cpu, "--output", "run"),
        "study": ("study", folder / "tiny.yaml", *cpu, "--jobs", 0),
        "evaluate": ("evaluate", "embedded:no_cot", "--on", "word-problems", "--limit", 40, *cpu, "--output", "out"),
        "evaluate, default folder": ("evaluate", "embedded:no_cot", "--on", "word-problems", "--limit", 40, *cpu),
        "export": ("export", "embedded:ruplar", "out"),
        "average": ("average", "out", "embedded:ruplar", folder / "copy"),
        "report --page": ("report", record, "--page", "out.html"),
        "demo": ("demo", "--output", "demo", "--no-train", "--questions", 20),
        "fetch": ("fetch", "tiny", "--from", source, "--cache", "cache"),
        "bench": ("bench", "latency", "--quick", *cpu, "--output", "out.json"),
    }
    found = []
    conditions = {"full disk": _full, "read-only folder": _read_only, "folder of another user": _foreign}
    for condition, prepare in list(conditions.items())[:count]:
        tally = Tally(f"{condition}, {len(verbs)} verbs that write", "one sentence, status 2, nothing half written")
        for verb, words in verbs.items():
            _try_verb(tally, verb, words, prepare, folder / f"{condition}-{verb}".replace(" ", "-"))
        found.append(tally)
    return found


def _full() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (600, 600))  # a longer file fails as on a full disk


def _read_only() -> None:
    Path.cwd().chmod(0o555)
    _drop_rights()


def _foreign() -> None:
    Path.cwd().chmod(0o711)
    _drop_rights()


def _drop_rights() -> None:
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)


def _try_verb(tally: Tally, verb: str, words: tuple[Any, ...], prepare: Callable[[], None], place: Path) -> None:
    sys.path.insert(0, str(TESTS / "train"))
    from train_and_die import wait

    place.mkdir(parents=True)
    heard, said = os.pipe()
    pid = os.fork()
    if pid == 0:
        code: Any = 70
        try:
            os.close(heard)
            os.dup2(said, 1)
            os.dup2(said, 2)
            os.chdir(place)
            prepare()
            _command(*words)
            code = 0
        except SystemExit as error:
            code = error.code
        except BaseException:
            import traceback

            os.write(2, traceback.format_exc().encode())
        finally:
            sys.stdout.flush()
            os._exit(code or 0)
    os.close(said)
    with os.fdopen(heard, "rb") as pipe:
        text = pipe.read().decode("utf-8", "replace")
    code = wait(pid)
    left = [str(file.relative_to(place)) for file in place.rglob("*") if file.is_file() and file.stat().st_size]
    left = [name for name in left if not name.endswith((".journal", ".lock"))]  # kept on purpose, to resume
    good = code == 2 and "Traceback" not in text and any(word in text for word in ("cannot be", "too large", "denied"))
    tally.check(good and not left, f"{verb}: status {code}, left {left[:5]}: {text[-1500:]}")
