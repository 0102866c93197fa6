"""An exported model and its records → README.md, a Hub model card made from records only.

    ---            front matter (`front_matter.py`)
    # NAME         what it is · how to use it · how it was trained · scores · latent ablation · limits · licence

What no record states is left out or called unknown. Of local paths only the last part is shown.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ruplar import plugins
from ruplar.errors import UserError
from ruplar.evaluate.samples import SAMPLES, read_samples
from ruplar.model.fetch import KNOWN, backbones
from ruplar.report.card_sections import ablation, as_code, limits, scores, training
from ruplar.report.front_matter import as_yaml, front_matter, hub_model, public, without_places
from ruplar.report.model_records import ModelRecords, filled
from ruplar.report.rows import VALID
from ruplar.report.table import Table
from ruplar.report.tables import NONE

if TYPE_CHECKING:
    from ruplar.model.store import ModelMetadata

README = "README.md"
PACKAGED = tuple(name for name in backbones() if name not in KNOWN)
"""Backbones packaged with ruplar."""
LONGEST = 240
"""Longest example question."""


@dataclass(frozen=True)
class Written:
    """An exported model.

    Attributes:
        name: Its folder's name.
        card: Its metadata (`ruplar.json`).
        adapter: Whether its weights are an adapter only, to be loaded on its backbone.
        parameters: Parameters of the whole model, without the adapter.
        megabytes: Size of the weights in the folder.
    """

    name: str
    card: ModelMetadata
    adapter: bool
    parameters: int
    megabytes: float


def build_card(written: Written, subject: ModelRecords, *, licence: str | None = None, more_limits: str = "") -> str:
    """Make the card's text."""
    backbone = written.card.backbone.name
    fields = front_matter(written.name, subject.record, adapter=written.adapter, backbone=backbone, licence=licence)
    sections = {
        "What it is": _what(written, subject),
        "How to use it": _use(written, subject),
        "How it was trained": training(subject),
        "Scores": scores(subject),
        "Latent ablation": ablation(subject),
        "Limits": limits(written.card, subject, written.adapter, written.parameters),
        "Licence": _licence(written, licence),
    }
    sections = {title: without_places(text.strip()) for title, text in sections.items() if text}
    sections["Limits"] += f"\n\n{more_limits.strip()}" if more_limits.strip() else ""
    draft = (
        f"> **Draft.** These numbers may not enter a table: {'; '.join(subject.partial)}.\n\n"
        if subject.partial
        else ""
    )
    body = "\n".join(f"## {title}\n\n{text}\n" for title, text in sections.items())
    return f"---\n{without_places(as_yaml(fields))}---\n\n# {written.name}\n\n{draft}{body}"


def _what(written: Written, subject: ModelRecords) -> str:
    card, size = written.card, f"{written.parameters / 1e6:,.0f} million parameters"
    name = _linked(card.backbone.name)
    weights = (
        f"a LoRA adapter of {written.megabytes:.1f} MB for {name}, a language model of {size}"
        if written.adapter
        else f"a language model of {size}, made from {name}"
    )
    paper = (
        " The method is that of *RuPLaR: Efficient Latent Compression of LLM Reasoning Chains with Rule-Based Priors* "
        "([arXiv 2605.09346](https://arxiv.org/abs/2605.09346))."
    )
    return (
        f"{written.name} is {weights}. It was trained with ruplar, for the domain *{card.domain.name}*. "
        f"{_thinks(card.method.name, [r.latents for r in subject.results])}{paper if card.method.name == 'ruplar' else ''}\n\n"
        + Table(("setting", "value", "what it means"), tuple(_settings(card)), 3).markdown()
    )


def _thinks(method: str, latents: Sequence[float]) -> str:
    """Describe how the model reasons, in one sentence."""
    if method == "cot":
        return "It writes a chain of thought before it answers."
    if not any(latents):
        return "It answers directly, without latents."
    few, many = f"{min(latents):.1f}", f"{max(latents):.1f}"
    return (
        "Between question and answer it feeds itself a few latents (vectors in place of tokens) instead of writing a chain: "
        f"{few if few == many else f'{few} to {many}'} per question on the benchmarks below."
    )


def _settings(card: ModelMetadata) -> list[tuple[str, str, str]]:
    """List the plug-ins, their settings that differ from the defaults, and the adapter."""
    found = []
    for kind, section in (("methods", "method"), ("priors", "prior"), ("spans", "spans"), ("domains", "domain")):
        named = getattr(card, section)
        if named is None or (section in ("prior", "spans") and card.method.name in ("cot", "no_cot", "icot")):
            continue
        found.append((section, f"`{named.name}`", _about(kind, named.name)))
        usual, own = filled(kind, named.name, {}), filled(kind, named.name, named.settings)
        always = ("max_latents", "operand_share")
        keep = [key for key, value in own.items() if value != usual.get(key) or key in always]
        found += [(f"{section}.{key}", f"`{own[key]}`", as_code(_help(kind, named.name, key))) for key in keep]
    lora = card.backbone.lora
    if lora is not None:
        found.append(("backbone.lora", f"`rank {lora.rank}, alpha {lora.alpha}`", "Low-rank adapter (PEFT)."))
    if card.backbone.number_tokens:
        found.append(("backbone.number_tokens", "`True`", "One token for every group of two or three digits."))
    return found


def _about(kind: str, name: str) -> str:
    return plugins.describe(kind, name) if name in plugins.names(kind) else f"`{name}`, an external plug-in."


def _help(kind: str, name: str, key: str) -> str:
    try:
        field = plugins.load(kind, name).Config.model_fields.get(key)
    except UserError:
        field = None
    return (field.description if field else None) or NONE


def _use(written: Written, subject: ModelRecords) -> str:
    backbone, init = written.card.backbone.name, written.card.backbone.init
    question, answered = _example(subject)
    fetch = (
        f"ruplar fetch {backbone}    # once, {KNOWN[backbone].megabytes} MB\n"
        if backbone in KNOWN and written.adapter
        else ""
    )
    needs = (
        f"The adapter needs the weights of `{public(init, ['init'])}`, which are not in this folder; export with --merge for a "
        "self-contained model.\n\n"
        if written.adapter and init
        else ""
    )
    soft = any(r.latents for r in subject.results) and written.card.method.name != "cot"
    shown = ", [latent.tokens[0] for latent in answer.latents]" if soft else ""
    loads = "" if written.adapter else "`AutoModelForCausalLM.from_pretrained` loads the folder as a plain model."
    if loads and soft:
        loads += " Its `generate` produces text tokens only; ruplar produces the latents, using `ruplar.json`."
    return f"""{needs}`{written.name}` is the path of this folder.

```bash
pip install .    # in a checkout of ruplar
{fetch}ruplar ask {shlex.quote(written.name)} {shlex.quote(question)}
```

```python
from ruplar import LatentReasoner

reasoner = LatentReasoner.from_pretrained({_quoted(written.name)})
question = {_quoted(question)}
[answer] = reasoner.ask([question]{", return_latents=True" if soft else ""})
print(answer.text{shown})
```

{answered}{loads}"""


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _example(subject: ModelRecords) -> tuple[str, str]:
    """Choose a short question that the model answered correctly, and its answer; "…" where no answers are stored."""
    rows = read_samples(subject.folder) if (subject.folder / SAMPLES).is_file() else []
    rows = [r for r in rows if r["correct"] and len(r["question"]) <= LONGEST and "\n" not in r["question"]]
    # test questions before the selection set, and those with stored latents first
    first = min(rows, key=lambda r: (r["benchmark"] == VALID, not r.get("latents"), r["index"]), default=None)
    if first is None:
        return "…", ""
    thoughts = ", ".join(f"`{z['tokens'][0]}`" for z in first.get("latents") or () if z.get("tokens"))
    how = f" after latents whose most likely tokens are {thoughts}" if thoughts else ""
    answered = (
        f"In the evaluation it answered `{first['text'].strip()}`{how}; the correct answer is `{first['marked']}`.\n\n"
    )
    return first["question"], answered


def _licence(written: Written, licence: str | None) -> str:
    own = f"These weights: {licence}." if licence else "No licence is named for these weights."
    name = written.card.backbone.name
    backbone = "is part of ruplar (Apache-2.0)" if name in PACKAGED else "has its own licence, which also applies"
    return f"{own} The backbone, {_linked(name)}, {backbone}."


def _linked(backbone: str) -> str:
    """Format a backbone's name: a link to the Hub, or the name only."""
    hub = hub_model(backbone)
    return f"[{hub}](https://huggingface.co/{hub})" if hub else f"`{public(backbone, ['init'])}`"
