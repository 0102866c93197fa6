"""Two trained models → how fast they answer the same questions: soft tokens, and the written chain of a text model.

Each model writes until it ends by itself. The text model also runs through Hugging Face `generate`, in batches of the same size. All
have their adapters merged, get prompts as ids and take turns. On a busy machine compare the CPU times, with one thread.
"""

import os
from collections.abc import Callable, Sequence
from typing import Any

from ruplar.bench import published
from ruplar.bench.latency import questions_of
from ruplar.bench.report import about, ratio
from ruplar.bench.timing import interleave
from ruplar.engine.fast import FastEngine
from ruplar.engine.options import EngineOptions
from ruplar.engine.reference import Generation, left_pad
from ruplar.engine.sampling import Decoding
from ruplar.engine.scheduler import Scheduler
from ruplar.engine.thinker import TextThinker
from ruplar.errors import UserError
from ruplar.model.backbone import Backbone
from ruplar.model.store import Model, load_model
from ruplar.types import Prompt


def models(
    names: tuple[str, str], on: str, place: tuple[str, str], batches: Sequence[int], questions: int, repeats: int = 3
) -> dict[str, Any]:
    """Time two models, soft and text, on a device in a data type; one row per procedure and batch size."""
    device, dtype = place
    soft, text = (load_model(name, device, dtype) for name in names)
    if not isinstance(text.method.thinker(text.backbone), TextThinker):
        raise UserError(f"{names[1]} does not write its reasoning. Choose one of method cot, e.g. embedded:cot.")
    asked = questions_of(on, soft.domain, questions)
    rows = [row for batch in batches for row in _rows(soft, text, asked, batch, repeats)]
    first = {row["procedure"]: row for row in rows if row["batch"] == batches[0]}
    versus = {f"vs_{name}": ratio(first[name]["ms"], first["ours"]["ms"]) for name in ("text", "hf_cot")}
    load = {"load_average": os.getloadavg()[0] if hasattr(os, "getloadavg") else None}
    return {
        **about("models", names[0], device, dtype),
        **versus,
        "text_model": names[1],
        "on": on,
        "questions": len(asked),
        **load,
        "rows": rows,
    }


def _rows(soft: Model, text: Model, asked: Sequence[str], batch: int, repeats: int) -> list[dict[str, Any]]:
    """Return milliseconds of wall clock and CPU, forward passes and tokens per question of each procedure."""
    prompts = {name: [model.prompt(q) for q in asked] for name, model in (("ours", soft), ("text", text))}
    run = {name: _engine(model, batch, prompts[name]) for name, model in (("ours", soft), ("text", text))}
    found: dict[str, list[Generation]] = {}
    works = {
        "ours": lambda: found.update(ours=run["ours"]()),
        "text": lambda: found.update(text=run["text"]()),
        "hf_cot": lambda: _hf(text.backbone, prompts["text"], found["text"], batch),
    }
    device = soft.backbone.device
    took = interleave(works, device, repeats, warm_up=int(device.type == "cuda"), budget_s=600)
    rows, ours = [], took["ours"]
    for name, spread in took.items():
        source = "ours" if name == "ours" else "text"
        made = found[source]
        forwards = sum(row.forwards for row in made) / len(made)
        tokens = forwards + sum(len(p.ids) for p in prompts[source]) / len(made)  # and <think> in place of the prefill
        each = {"ms": spread.median / len(asked), "cpu_ms": (spread.cpu or 0) / len(asked)}
        versus = {"vs_ours": ratio(spread.median, ours.median), "cpu_vs_ours": ratio(spread.cpu, ours.cpu)}
        rows.append({"procedure": name, "batch": batch, **each, **versus, "forwards": forwards, "tokens": tokens})
    return rows


def _engine(model: Model, slots: int, prompts: Sequence[Prompt]) -> Callable[[], list[Generation]]:
    options = EngineOptions(release=True)
    engine = FastEngine.of(model.backbone, model.method.thinker(model.backbone), Decoding(), slots, options)
    return lambda: Scheduler(engine).run_all(prompts)


def _hf(backbone: Backbone, prompts: Sequence[Prompt], made: Sequence[Generation], batch: int) -> None:
    """Generate in batches of similar lengths, each as long as its longest chain and answer."""
    order = sorted(range(len(prompts)), key=lambda i: len(prompts[i].ids))
    for start in range(0, len(order), batch):
        some = order[start : start + batch]
        ids, mask = left_pad([[*prompts[i].ids, backbone.think_id] for i in some], backbone.pad_id, backbone.device)
        published.hf_generate(backbone, max(made[i].forwards for i in some), input_ids=ids, attention_mask=mask)
