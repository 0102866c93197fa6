"""What the engine has generated for a sample so far → the increments to send: latents, written thought, answer text."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from ruplar.engine.answers import latents_of, text_ids
from ruplar.engine.reference import Generation
from ruplar.model.store import Model
from ruplar.types import Latent

FinishReason = Literal["stop", "length"]

_SHOWN = 10  # top tokens of a latent
_INCOMPLETE = "\ufffd"  # what a tokenizer writes for a character whose bytes have not all arrived


@dataclass
class IncrementalDetokenizer:
    """Decode a growing list of token ids into text that never has to be corrected."""

    decode: Callable[[Sequence[int]], str]  # ids → text
    stops: Sequence[str] = ()  # stop strings; the text ends before the first of them
    text: str = ""  # the text returned so far
    stopped: bool = field(default=False, init=False)  # whether a stop string was found; no text follows
    _ids: int = field(default=0, init=False)

    def update(self, ids: Sequence[int], final: bool = False) -> str:
        """Return the new text that can no longer change."""
        if self.stopped or (len(ids) == self._ids and not final):
            return ""
        self._ids = len(ids)
        whole = self.decode(ids)
        found = [at for stop in self.stops if (at := whole.find(stop)) >= 0]
        if found:
            self.stopped = True
            certain = min(found)
        else:
            certain = len(whole) if final else len(whole) - self._uncertain(whole)
        new = whole[len(self.text) : certain]
        self.text += new
        return new

    def _uncertain(self, text: str) -> int:
        """Count the characters at the end that may still change or become part of a stop string."""
        known = text.rstrip(_INCOMPLETE)
        prefixes = (size for stop in self.stops for size in range(len(stop)) if known.endswith(stop[:size]))
        return len(text) - len(known) + max(prefixes, default=0)


@dataclass
class OutputDelta:
    """What is new in a sample's output."""

    latents: list[Latent] = field(default_factory=list)  # latents in readable form, when reasoning is included
    thought: str = ""  # text of a written thought, when reasoning is included
    text: str = ""
    finish: FinishReason | None = None  # why the answer ended, in the last increment

    def __bool__(self) -> bool:
        return bool(self.latents or self.thought or self.text or self.finish)


@dataclass
class SampleOutput:
    """The output of one sample as it grows."""

    model: Model  # the model that generates it
    include_reasoning: bool = False  # whether the thought is made readable
    stops: Sequence[str] = ()  # stop strings of the answer
    latents: list[Latent] = field(default_factory=list, init=False)  # the latents so far, when reasoning is included
    # the engine's last state; after a stop string, the state at that point
    row: Generation = field(default_factory=Generation, init=False)
    finish: FinishReason | None = field(default=None, init=False)

    def __post_init__(self):
        decode = self.model.backbone.tokenizer.decode
        self.answer, self.thought = IncrementalDetokenizer(decode, self.stops), IncrementalDetokenizer(decode)

    def update(self, row: Generation, final: bool) -> OutputDelta:
        """Take the engine's state (of the latents, at least the new ones) and return what is new."""
        if self.finish is not None:
            return OutputDelta()
        self.row, delta = row, OutputDelta()
        if self.include_reasoning:
            delta.latents = self._new_latents(row)
            delta.thought = self.thought.update(row.thought_ids, final or bool(row.answer_ids))
        delta.text = self.answer.update(text_ids(self.model.backbone, row), final)
        if self.answer.stopped:
            delta.finish = "stop"
        elif final:
            delta.finish = "stop" if row.ended else "length"
        self.finish = delta.finish
        return delta

    def _new_latents(self, row: Generation) -> list[Latent]:
        count = row.latent_count - len(self.latents)
        if count <= 0 or not row.latent_logits or row.thought_ids:
            return []
        fresh = replace(row, latent_logits=row.latent_logits[-count:], latent_count=count)
        [new] = latents_of(self.model.backbone, [fresh], _SHOWN)
        self.latents += new
        return list(new)


def latent_as_dict(latent: Latent, index: int) -> dict[str, Any]:
    return {
        "index": index,
        "tokens": list(latent.tokens),
        "probs": [round(p, 6) for p in latent.probs],
        "entropy": round(latent.entropy, 6),
        "halt": round(latent.halt, 6),
    }


def thought_text(latents: Sequence[Latent]) -> str:
    return " → ".join(latent.tokens[0].strip() or repr(latent.tokens[0]) for latent in latents)
