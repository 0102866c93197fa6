"""Mutated data files, recipes, overrides and model folders; control tokens in user text; NaN."""

from __future__ import annotations

import json
import random
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tally import Tally

ROOT = Path(__file__).parents[2]
NAMED = "no traceback, none over 5 s"
HOSTILE = [
    *("", " ", "\x00", "\ufeff", "\u2028", "\\ud800", "٣", "²", "½", "NaN", "-Infinity", "1e999", "-0", "0x" + "f" * 5000),
    *("9" * 5000, "[" * 3000, "{" * 3000, '"', "\\", "'", ",", ":", "\t", "\r", "- ", "<<", ">>", "<<1/0=0>>", "<<9**9**9=1>>"),
    *("<<" + "(" * 2000 + "1" + ")" * 2000 + "=1>>", "#### ", "null", "true", "{}", "[]", "&a [*a]", "*a", "!!int x"),
    *("!!python/object/apply:os.getcwd []", "<think>", "</think>", "<|end|>", "../../etc/passwd", "a" * 100_000, "🙂" * 50),
    *("2020-13-45", "1_000", "1:30:45", "~", "%", "{{ 1 }}", "/dev/null/x", "hub:x/y", "embedded", "-1", "0", "3.5", "1e-400"),
]  # fmt: skip
VALUES: list[Any] = [
    *(None, True, 0, -1, 2**70, 1e308, float("nan"), float("inf"), "", [], {}, [[]], {"a": {"b": []}}, ["x", 1, None]),
    *HOSTILE,
]


def mutated(draw: random.Random, content: bytes, times: int = 3) -> bytes:
    """Change some bytes: flip, cut, repeat, remove or insert."""
    found = bytearray(content)
    for _ in range(draw.randint(1, times)):
        at = draw.randrange(len(found) + 1)
        end = min(len(found), at + draw.choice([1, 2, 8, 64, 512]))
        kind = draw.randrange(6)
        if kind == 0 and at < len(found):
            found[at] ^= 1 << draw.randrange(8)
        elif kind == 1:
            del found[at:]
        elif kind == 2:
            found[at:at] = found[at:end] * draw.choice([1, 2, 50])
        elif kind == 3:
            del found[at:end]
        else:
            found[at:end] = draw.choice(HOSTILE).encode("utf-8", "surrogatepass")
    return bytes(found)


def mutated_json(draw: random.Random, value: Any) -> Any:
    """Replace, rename or remove one entry somewhere in a JSON value."""
    if not isinstance(value, dict | list) or not value or draw.random() < 0.2:
        return draw.choice(VALUES)
    if isinstance(value, list):
        at = draw.randrange(len(value))
        return [*value[:at], mutated_json(draw, value[at]), *value[at + 1 :]]
    key = draw.choice(list(value))
    kind = draw.randrange(5)
    if kind == 0:
        return {k: v for k, v in value.items() if k != key}
    if kind == 1:
        return {draw.choice(HOSTILE) if k == key else k: v for k, v in value.items()}
    return {k: mutated_json(draw, v) if k == key else v for k, v in value.items()}


def data_files(count: int, draw: random.Random, folder: Path) -> Tally:
    """Mutated files in every format, read for training and checked."""
    from ruplar import plugins
    from ruplar.data.check import check_chains
    from ruplar.data.read import read
    from ruplar.model.prompt import PlainText
    from ruplar.model.tokenizers import load_tokenizer
    from ruplar.preview import preview
    from ruplar.priors.base import PriorTable

    tally = Tally("mutated data files", NAMED)
    seeds = [(f.suffix, f.read_bytes()) for f in sorted((ROOT / "tests" / "fixtures" / "data").iterdir())]
    seeds.append((".csv", b'question,steps,answer\n3 bags of 4?,<<3*4=12>>,12\n"a, b?",<<1+1=2>>,2\n'))
    seeds += [(".parquet", _parquet())]
    domains = [plugins.make("domains", name) for name in ("arithmetic", "dates", "logic")]
    tokenizer = load_tokenizer("embedded")
    encode = PlainText(tokenizer, frozenset(tokenizer.all_special_ids))
    table = PriorTable(plugins.make("priors", "mixture"), encode, 0)
    tools = {
        "tokenizer": tokenizer,
        "domain": domains[0],
        "spans": plugins.make("spans", "step"),
        "prior_table": table,
    }
    for number in range(count):
        suffix, content = draw.choice(seeds)
        if suffix in (".jsonl", ".json") and draw.random() < 0.5:
            content = _mutated_rows(draw, content)
        else:
            content = mutated(draw, content)
        file = folder / f"case{draw.choice([suffix, suffix, suffix, '.jsonl', '.txt', '.json', '.csv'])}"
        file.write_bytes(content)
        domain = draw.choice(domains)

        def case(file: Path = file, domain: Any = domain, number: int = number) -> None:
            if number % 2:
                check_chains(str(file), domain, rows=2).text()
                return
            found = read(file, domain, need_steps=bool(number % 4), skip_bad=number % 8 < 6)
            if domain is domains[0] and found.examples[0].steps:
                preview(found.examples[0].steps, **tools)

        tally.run(f"data file {number}, {file.name}: {content[:200]!r}", case)
        file.unlink()
    return tally


def _parquet() -> bytes:
    import pyarrow
    from pyarrow import parquet

    sink = pyarrow.BufferOutputStream()
    rows = [{"question": f"{n} bags of 4?", "answer": f"<<{n}*4={4 * n}>> #### {4 * n}"} for n in range(9)]
    parquet.write_table(pyarrow.Table.from_pylist(rows), sink)
    return sink.getvalue().to_pybytes()


def _mutated_rows(draw: random.Random, content: bytes) -> bytes:
    try:
        return json.dumps(mutated_json(draw, json.loads(content))).encode("utf-8", "surrogatepass")
    except ValueError:
        rows = [json.loads(line) for line in content.splitlines()]
        at = draw.randrange(len(rows))
        rows[at] = mutated_json(draw, rows[at])
        return "\n".join(json.dumps(row) for row in rows).encode()


def recipes(count: int, draw: random.Random, folder: Path) -> Tally:
    """Mutated recipe files."""
    from ruplar.config import load_recipe

    tally = Tally("mutated recipes", NAMED)
    seeds = [f.read_bytes() for f in sorted((ROOT / "src" / "ruplar" / "recipes").glob("*.yaml"))]
    for number in range(count):
        content = (
            _mutated_lines(draw, draw.choice(seeds)) if draw.random() < 0.5 else mutated(draw, draw.choice(seeds))
        )
        (folder / "case.yaml").write_bytes(content)
        tally.run(f"recipe {number}: {content[:1500]!r}", lambda: load_recipe(folder / "case.yaml"))
    return tally


def _mutated_lines(draw: random.Random, content: bytes) -> bytes:
    """Give one setting a hostile value, or move a line."""
    lines = content.decode().splitlines()
    at = draw.randrange(len(lines))
    if ":" in lines[at] and draw.random() < 0.7:
        lines[at] = f"{lines[at].partition(':')[0]}: {draw.choice(HOSTILE)}"
    else:
        lines.insert(draw.randrange(len(lines)), lines.pop(at))
    return "\n".join(lines).encode("utf-8", "surrogatepass")


def overrides(count: int, draw: random.Random, folder: Path) -> Tally:
    """Random settings on the command line."""
    from ruplar.config import load_recipe

    tally = Tally("random overrides", NAMED)
    keys = sorted(_keys(load_recipe("embedded-ruplar").model_dump(mode="json")))
    for number in range(count):
        words = []
        for _ in range(draw.randint(1, 3)):
            key = draw.choice(keys)
            if draw.random() < 0.2:
                key = mutated(draw, key.encode(), 1).decode("utf-8", "replace")
            words.append(f"{key}={draw.choice(HOSTILE)}")
        shown = [word[:200] for word in words]
        tally.run(f"override {number}: {shown}", lambda words=words: load_recipe("embedded-ruplar", words))
    return tally


def _keys(value: Any, prefix: str = "") -> set[str]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    found = {prefix.rstrip(".")} - {""}
    return found.union(*(_keys(v, f"{prefix}{k}.") for k, v in inner)) if inner else found


def model_folders(count: int, draw: random.Random, folder: Path) -> Tally:
    """Damaged model folders, loaded and asked."""
    from ruplar.model.store import find_model, load_model
    from ruplar.reasoner import LatentReasoner

    tally = Tally("damaged model folders", NAMED)
    # an adapter, a whole model, and one with its own tokenizer
    seeds = [find_model("embedded:ruplar"), find_model("embedded:cot"), _exported(folder / "exported")]
    for number in range(count):
        source, case = draw.choice(seeds), folder / "case"
        shutil.rmtree(case, ignore_errors=True)
        case.mkdir()
        files = sorted(f for f in source.iterdir() if f.is_file())
        chosen = draw.choice(files)
        for file in files:
            if file != chosen:
                (case / file.name).symlink_to(file)
        content = chosen.read_bytes()
        if chosen.suffix == ".json" and draw.random() < 0.7:
            content = json.dumps(mutated_json(draw, json.loads(content))).encode("utf-8", "surrogatepass")
        else:  # the header of a weights file is at its start
            cut = 3000 if chosen.suffix == ".safetensors" and draw.random() < 0.7 else len(content)
            content = mutated(draw, content[:cut]) + content[cut:]
        if draw.random() < 0.95:
            (case / chosen.name).write_bytes(content)

        def run(case: Path = case) -> None:
            LatentReasoner(load_model(case)).ask(["3 bags of 4 apples?"])

        tally.run(f"model folder {number}, {source.name}/{chosen.name}: {content[:300]!r}", run)
    return tally


def _exported(folder: Path) -> Path:
    from ruplar.model.exported import export_model

    export_model("embedded:no_cot", folder, merge=True)
    return folder


def control_tokens(count: int, draw: random.Random, folder: Path) -> Tally:
    """Control tokens in a question, with every tokenizer at hand."""
    sys.path.insert(0, str(ROOT / "tests" / "model"))
    from test_prompt import backbone_of

    from ruplar.cache import cache_folder
    from ruplar.errors import UserError
    from ruplar.model.tokenizers import load_tokenizer

    tally = Tally("control tokens in user text", "none becomes a control token; text unchanged")
    cached = sorted(file.parent for file in (cache_folder() / "models").glob("*/tokenizer.json"))
    for name in ("embedded", "embedded-dates", "embedded-logic", "llama-3", *cached):
        try:
            backbone = backbone_of(load_tokenizer(name))
        except UserError as error:
            tally.figures[f"not at hand, {name}"] = str(error)[:80]
            continue
        tally.figures[Path(name).name] = f"{count:,}"
        _try_tokens(tally, Path(name).name, backbone, count, draw)
    return tally


def _try_tokens(tally: Tally, name: str, backbone: Any, count: int, draw: random.Random) -> None:
    tokenizer = backbone.tokenizer
    names = [*tokenizer.all_special_tokens, *tokenizer.get_added_vocab(), "<think>", "</think>"]
    controls = {tokenizer.convert_tokens_to_ids(n) for n in (*tokenizer.all_special_tokens, "<think>", "</think>")}
    pieces = [
        *names,
        *(n[:4] for n in names),
        *(n[4:] for n in names),
        "<",
        "|",
        ">",
        " ",
        "\n",
        "7",
        "a",
        "é",
        "🙂",
        "\u200b",
    ]
    for _ in range(count):
        text = "".join(draw.choice(pieces) for _ in range(draw.randint(1, 12)))
        ids = backbone.prompt.plain(text)
        same = tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False) == text
        tally.check(not set(ids) & controls and same, f"{name}: {text!r} gives {ids}")


def not_a_number(count: int, draw: random.Random, folder: Path) -> Tally:
    """NaN in weights, data and optimizer state: named, never trained on, saved or answered with."""
    import torch
    from safetensors.torch import load_file, save_file

    from ruplar.data.read import read
    from ruplar.domains.arithmetic import Config, Domain
    from ruplar.errors import UserError
    from ruplar.model.store import find_model
    from ruplar.reasoner import LatentReasoner

    sys.path.insert(0, str(ROOT / "tests" / "train"))
    from conftest import make_config, write_backbone

    from ruplar.train.run import train

    tally = Tally("NaN in weights, data and optimizer", "named before an answer or a checkpoint")

    def named(what: str, case: Callable[[], Any], word: str) -> None:
        try:
            case()
        except UserError as error:
            tally.check(word in str(error), f"{what}: {error}")
        else:
            tally.check(False, f"{what}: was not noticed")

    model, weights = folder / "nan", "adapter_model.safetensors"
    shutil.copytree(find_model("embedded:ruplar"), model)
    tensors = load_file(model / weights)
    for name in draw.sample(sorted(tensors), min(count, len(tensors))):
        poisoned = tensors[name].clone()
        poisoned.view(-1)[draw.randrange(poisoned.numel())] = float("nan")
        save_file({**tensors, name: poisoned}, model / weights)
        named(f"weights {name}", lambda: LatentReasoner.from_pretrained(model).ask(["3 bags of 4?"]), "NaN")
    for text in (
        '{"question": NaN, "answer": "1"}',
        '{"question": "1+1?", "answer": NaN}',
        '{"question": "a?", "answer": Infinity}',
    ):
        (folder / "nan.jsonl").write_text(text)
        named(f"row {text}", lambda: read(folder / "nan.jsonl", Domain(Config()), need_steps=False), "nan.jsonl")
    config = make_config(write_backbone(folder / "backbone"), max_steps=4, save_strategy="steps", save_steps=2)
    train(config, output=folder / "run")
    shutil.rmtree(folder / "run" / "checkpoint-4")
    shutil.rmtree(folder / "run" / "model")
    state_file = folder / "run" / "checkpoint-2" / "optimizer.pt"
    state = torch.load(state_file, weights_only=True)
    next(iter(state["state"].values()))["exp_avg"].fill_(float("nan"))
    torch.save(state, state_file)
    named("optimizer state", lambda: train(config, output=folder / "run", resume=True), "NaN")
    tally.check(not (folder / "run" / "model").exists(), "a model was saved after NaN in the optimizer")
    return tally
