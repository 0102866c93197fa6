"""A model and its records → what a reader must not expect of it: only what follows from the records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ruplar.model.fetch import KNOWN
from ruplar.report.front_matter import public, trained_on
from ruplar.report.model_records import VALID, ModelRecords

if TYPE_CHECKING:
    from ruplar.model.store import ModelMetadata


def limits(card: ModelMetadata, subject: ModelRecords, adapter: bool, parameters: int) -> str:
    """The section, as a list.

    Args:
        card: Of the model.
        subject: Its records.
        adapter: Whether its weights are an adapter alone.
        parameters: Of the whole model.
    """
    machine = subject.record.machine
    found = [
        f"It is a small model: {parameters / 1e6:,.0f} million parameters." if parameters < 1e9 else "",
        _backbone(card.backbone.name),
        _domain(card, subject),
        _tested(subject),
        _thoughts(card, subject),
        _decoding(subject),
        _unreadable(subject),
        _chance(subject),
        "The scores were measured on the weights as they were trained: in another precision"
        + ("" if adapter else ", or with the adapter folded in,")
        + " a near tie can fall the other way.",
        f"Milliseconds are those of {machine.gpu or f'{machine.cpu}, {machine.cores} cores'}.",
    ]
    return "\n".join(f"- {one}" for one in found if one)


def _chance(subject: ModelRecords) -> str:
    """What the intervals do not cover."""
    if len(subject.seeds) > 1:
        return ""
    one, other = (
        ("mean of trainings", "of other trainings") if subject.record.mean_of else ("seed", "of another training")
    )
    return f"Only one {one} is on record: the intervals cover the chance of the questions, not that {other}."


def _backbone(name: str) -> str:
    """A fetched backbone is not quite the Hub's: it comes from a GGUF file, and the adapter has learnt on that."""
    if name not in KNOWN:
        return ""
    return (
        f"It was trained on `{name}` as `ruplar fetch` makes it from the GGUF file in {KNOWN[name].package}; on the weights of "
        f"{KNOWN[name].hub} at the Hub, from which that file was made, it was not tested."
    )


def _domain(card: ModelMetadata, subject: ModelRecords) -> str:
    sources = ", ".join(f"`{source}`" for source in public(trained_on(subject.record)))
    init = subject.record.config.get("backbone", {}).get("init")
    before = f", after what `{public(init, ['init'])}` was trained on" if init else ""
    taught = f" It was trained on {sources}{before}." if sources else ""
    return (
        f"It is made for questions of one domain, {card.domain.name}.{taught} Whether it still does what else its backbone "
        "could do was not tested."
    )


def _tested(subject: ModelRecords) -> str:
    asked = [r for r in subject.results if r.name != VALID] or subject.results
    worst = min(asked, key=lambda r: r.accuracy)
    lowest = (
        f" The lowest score is {worst.accuracy:.1f} %, on {worst.name}." if len({r.name for r in asked}) > 1 else ""
    )
    names = ", ".join(dict.fromkeys(r.name for r in asked))
    return (
        f"It was tested on {names}, and on nothing else: other kinds of questions, other languages, harmful or leading "
        f"questions are untested.{lowest}"
    )


def _thoughts(card: ModelMetadata, subject: ModelRecords) -> str:
    cap = card.method.settings.get("max_latents")
    shares = [r.halted for r in subject.results if r.halted is not None]
    if cap is None or not shares:
        return ""
    ended = "all of them" if min(shares) == 1 else f"at least {100 * min(shares):.1f} % of them on every set"
    return (
        f"A thought has at most {cap} latents; a longer one is cut there. On record, {ended} ended by themselves. What a "
        "latent favours, told in tokens, is a reading of it, not a proof of how the answer came about."
    )


def _decoding(subject: ModelRecords) -> str:
    ways = list(dict.fromkeys(r.decoding for r in subject.results))
    if ways == ["greedy"]:
        return "All scores are of greedy decoding; sampling was not tested."
    return f"The scores are of these ways to decode: {'; '.join(ways)}."


def _unreadable(subject: ModelRecords) -> str:
    told = [f"{r.unreadable:,} of {r.n:,} on {r.name}" for r in subject.results if r.unreadable]
    return f"Some answers could not be read, and count as wrong: {', '.join(told)}." if told else ""
