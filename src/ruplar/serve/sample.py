"""What the engine tells of one sample → pieces to send: soft tokens in readable form, written thought, answer text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ruplar.engine.reference import Generation
from ruplar.model.store import Model
from ruplar.serve.stops import Pieces
from ruplar.types import Latent

Finish = Literal["stop", "length"]


@dataclass
class Piece:
    """What is new of a sample.

    Attributes:
        latents: Soft tokens, when they are shown.
        thought: Text of a written thought, when it is shown.
        closed: The thought ended in this piece.
        text: Of the answer.
        finish: Why the answer ended, in its last piece.
    """

    latents: list[Latent] = field(default_factory=list)
    thought: str = ""
    closed: bool = False
    text: str = ""
    finish: Finish | None = None

    def __bool__(self) -> bool:
        return bool(self.latents or self.thought or self.text or self.finish or self.closed)


@dataclass
class Sample:
    """One answer as it grows.

    Attributes:
        model: Whose answer it is.
        shows: Make the thought readable.
        stops: Texts before which the answer ends.
        latents: The soft tokens so far, when they are shown.
        row: What the engine last told; after a stop text, what it had told by then.
    """

    model: Model
    shows: bool = False
    stops: Sequence[str] = ()
    latents: list[Latent] = field(default_factory=list, init=False)
    row: Generation = field(default_factory=Generation, init=False)
    finish: Finish | None = field(default=None, init=False)
    _closed: bool = field(default=False, init=False)

    def __post_init__(self):
        decode = self.model.backbone.tokenizer.decode
        self.answer, self.thought = Pieces(decode, self.stops), Pieces(decode)

    def take(self, row: Generation, final: bool) -> Piece:
        """Everything produced so far (of the latents, at least the new ones) → what is new of it."""
        if self.finish is not None:
            return Piece()
        self.row, piece = row, Piece()
        if self.shows:
            piece.latents = self._readable(row)
            piece.thought = self.thought.take(row.thought_ids, final or bool(row.answer_ids))
        if row.answer_ids and not self._closed:
            piece.closed = self._closed = True
        # the end token is no text; it only comes last
        ids = row.answer_ids[:-1] if row.ended else row.answer_ids
        piece.text = self.answer.take(ids, final)
        if self.answer.stopped:
            piece.finish = "stop"
        elif final:
            piece.finish = "stop" if row.ended else "length"
        self.finish = piece.finish
        return piece

    def _readable(self, row: Generation) -> list[Latent]:
        fresh = row.latent_count - len(self.latents)
        if fresh <= 0 or not row.latent_logits or row.thought_ids:
            return []
        import torch

        from ruplar.model.soft_tokens import readable

        backbone = self.model.backbone
        logits = torch.stack(row.latent_logits[-fresh:])
        found = readable(logits, backbone.tokenizer, backbone.end_think_id)
        self.latents += found
        return found


def latent_as_dict(latent: Latent, index: int) -> dict[str, Any]:
    """One soft token as JSON."""
    return {
        "index": index,
        "tokens": list(latent.tokens),
        "probs": [round(p, 6) for p in latent.probs],
        "entropy": round(latent.entropy, 6),
        "halt": round(latent.halt, 6),
    }


def thought_text(latents: Sequence[Latent]) -> str:
    """Soft tokens in one line: the likeliest token of each."""
    return " → ".join(latent.tokens[0].strip() or repr(latent.tokens[0]) for latent in latents)
