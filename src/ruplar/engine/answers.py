"""What an engine generated → answers: text, and latents as their most likely tokens."""

from collections.abc import Iterator, Sequence
from itertools import islice

import torch

from ruplar.engine.reference import Generation
from ruplar.model.backbone import Backbone
from ruplar.model.soft_tokens import readable
from ruplar.types import Answer, Latent

_READ_AT_ONCE = 64
"""Rows whose latents are made readable together; each latent has logits over the whole vocabulary."""
_SHOWN = 20
"""Top tokens reported for each latent: enough for every figure of a record."""


def answers_of(backbone: Backbone, rows: Sequence[Generation]) -> list[Answer]:
    """Ids and tensors → text and readable latents."""
    soft = [row for row in rows if (row.latent_logits or row.latent_hidden is not None) and not row.thought_ids]
    latents = {id(row): found for row, found in zip(soft, latents_of(backbone, soft), strict=True)}
    return [_answer(backbone, row, latents.get(id(row), ())) for row in rows]


def latents_of(backbone: Backbone, rows: Sequence[Generation], shown: int = _SHOWN) -> Iterator[tuple[Latent, ...]]:
    """Yield the readable latents of each row; many rows are copied from the device at once, since each copy waits for it."""
    for start in range(0, len(rows), _READ_AT_ONCE):
        some = rows[start : start + _READ_AT_ONCE]
        hidden = [row.latent_hidden for row in some if row.latent_hidden is not None]
        if hidden:
            with torch.inference_mode():
                logits = backbone.logits(torch.cat(hidden))
        else:
            logits = torch.stack([one for row in some for one in row.latent_logits])
        found = iter(readable(logits, backbone.tokenizer, backbone.end_think_id, shown))
        yield from (tuple(islice(found, row.latent_count)) for row in some)


def text_ids(backbone: Backbone, row: Generation) -> list[int]:
    """Return the answer's tokens without the end token and without markers, which an undertrained model may repeat."""
    ids = row.answer_ids[:-1] if row.ended else row.answer_ids
    return [i for i in ids if i not in (backbone.think_id, backbone.end_think_id)]


def _answer(backbone: Backbone, row: Generation, latents: tuple[Latent, ...]) -> Answer:
    tokenizer = backbone.tokenizer
    return Answer(
        text=tokenizer.decode(text_ids(backbone, row)),
        thought=tokenizer.decode(row.thought_ids) if row.thought_ids else "",
        latents=latents,
        latent_count=row.latent_count,
        answer_tokens=len(row.answer_ids),
        forwards=row.forwards,
        halted=row.halted,
        ended=row.ended,
    )
