"""The run that made a model → how it was trained: seed, commit, versions, machine, data with fingerprints, the whole recipe."""

from __future__ import annotations

from collections import Counter

from ruplar.data.sources import GENERATORS
from ruplar.evaluate.record import RunRecord
from ruplar.report.front_matter import as_yaml, public
from ruplar.report.model_records import ModelRecords
from ruplar.report.table import Table
from ruplar.report.tables import NONE


def training(subject: ModelRecords) -> str:
    """The section; where the record is of an evaluation alone, it says so."""
    record = subject.record
    if "training" not in record.config:
        known = "The records hold its scores, not its training; `ruplar.json` has the settings it was saved with."
        of = ", ".join(map(str, record.mean_of))
        return f"{known} It is the mean of the weights of the trainings of seeds {of}." if of else known
    init = record.config.get("backbone", {}).get("init")
    again = " `backbone.init` must then lead to the run it names." if init else ""
    what = "trains it again"
    if record.mean_of:
        seeds = ", ".join(f"seed={seed}" for seed in record.mean_of)
        what = f"with {seeds} trains what `ruplar average` makes it of"
    return f"""{_facts(subject)}
**Data**

{_data(record)}
This is the recipe with every setting written out. Saved as `recipe.yaml`, `ruplar train recipe.yaml` {what}.{again}

<details>
<summary>recipe.yaml</summary>

```yaml
{as_yaml(public(record.config))}```

</details>
"""


def _facts(subject: ModelRecords) -> str:
    record, machine = subject.record, subject.record.machine
    memory = "" if machine.memory_gb is None else f", {machine.memory_gb:.0f} GB"
    init = record.config.get("backbone", {}).get("init")
    seeds = ", ".join(str(seed) for seed in subject.seeds if seed != record.seed)
    facts = (
        ("recipe", str(record.config.get("name", record.name)) + (f", study {record.study}" if record.study else "")),
        ("start", "the backbone" if init is None else f"the run `{public(init, ['init'])}`, on the backbone"),
        _seed(record, seeds),
        ("commit", (record.commit or "unknown") + (", with uncommitted changes" if record.dirty else "")),
        ("versions", ", ".join(f"{name} {version}" for name, version in record.versions.items()) or "unknown"),
        ("machine", ", ".join(filter(None, [machine.gpu, f"{machine.cpu}, {machine.cores} cores{memory}"]))),
        ("training", "unknown" if record.train_seconds is None else f"{record.train_seconds:,.0f} seconds"),
        ("memory", "unknown" if record.peak_gb is None else f"{record.peak_gb:.2f} GB at most"),
        ("started", record.started[:10]),
    )
    return Table(("what", "value"), facts, 2).markdown()


def _seed(record: RunRecord, others: str) -> tuple[str, str]:
    if record.mean_of:
        what = f"{', '.join(map(str, record.mean_of))}: the mean of the weights of {len(record.mean_of)} trainings"
        return "seeds", what + (" (the scores pool other such means too)" if others else "")
    return "seed", str(record.seed) + (f" (the scores pool {others} too)" if others else "")


def _data(record: RunRecord) -> str:
    lines = []
    for source, mark in record.data.items():
        part, _, name = source.partition(": ")
        lines.append((part, public(name) or NONE, mark))
    text = (
        Table(("part", "source", "fingerprint"), tuple(lines), 3).markdown()
        if lines
        else "No fingerprint is on record.\n"
    )
    left = [f"{count:,} {public(why)}" for why, count in record.left_out.items() if count]
    text += f"\nRows left out{_again(record)}: {'; '.join(left)}.\n" if left else "\nNo row was left out.\n"
    clean = record.config.get("data", {}).get("decontaminate")
    if clean:
        sets = ", ".join(public(clean))
        text += f"Training rows that equal a question of {sets}, or share 13 words in a row with one, were dropped.\n"
    return text


def _again(record: RunRecord) -> str:
    """Which files were read more than once: their rows are counted as often."""
    read = Counter(entry["source"] for entry in record.config.get("data", {}).get("train", ()))
    often = [f"{public(name)} {n} times" for name, n in read.items() if n > 1 and name not in GENERATORS]
    return f", counted each time their file was read ({', '.join(often)})" if often else ""
