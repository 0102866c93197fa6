"""State of every slot and its next input, as tensors on the device; deciding on the next input reads nothing back.

One row of integers per slot, so that a single copy gives the host everything:

    done | thinking | latents | tokens | halted | ended | position | limit | answer ids .. | spare | thought ids .. | spare

A slot without a token to store writes into the spare column. A free slot is one that is done.

Axes: S slots, B rows decided on, V vocabulary, D width, T maximum answer tokens, N maximum latents.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

from ruplar.engine.decoder import At, SlotDecoder
from ruplar.engine.reference import Generation, Keep
from ruplar.engine.sampling import Decoding, Key, Noise, noised, noised_tokens, pick, uniforms
from ruplar.engine.thinker import NextInput, NoThinker, SoftThinker, TextThinker, Thinker, override_halt
from ruplar.types import Markers

DONE, THINKING, LATENTS, TOKENS, HALTED, ENDED, POSITION, LIMIT, HEADER = range(9)

Kind = Literal["soft", "text", "none", "captured", "other"]
"""soft, text, none: thinkers implemented here; captured: its `next` can be part of a CUDA graph; other: it cannot."""

_KINDS: dict[type, Kind] = {SoftThinker: "soft", TextThinker: "text", NoThinker: "none"}


def kind_of(thinker: Thinker, embedding: Any) -> Kind:
    """Thinker and the model's embedding → its kind; soft and text thinkers with another embedding are `other`.

    A class that sets `captures` is `captured`: its `next` is tensor code that neither synchronises with the device nor
    creates tensors from host values, and it returns no tokens.
    """
    kind = _KINDS.get(type(thinker), "captured" if getattr(thinker, "captures", False) else "other")
    return "other" if kind in ("soft", "text") and getattr(thinker, "embedding", None) is not embedding else kind


@dataclass
class SlotState:
    """Rows and buffers of all slots."""

    decoder: SlotDecoder  # gives embeddings
    thinker: Thinker  # decides on latents
    kind: Kind  # see `kind_of`
    markers: Markers  # ids of the marker tokens
    pad_id: int  # what idle slots feed
    slots: int  # S
    answers: int  # T, the longest answer of any slot
    keep: Keep = "none"  # what is stored of each latent
    rows: Tensor = field(init=False, repr=False)  # [S, HEADER + T + 1 + N + 1] int64
    embeds: Tensor = field(init=False, repr=False)  # [S, D] next input of each slot
    temperature: Tensor = field(init=False, repr=False)  # [S] float64, 1 where greedy
    top_p: Tensor = field(init=False, repr=False)  # [S] float64
    greedy: Tensor = field(init=False, repr=False)  # [S] bool
    answer_noise: Tensor = field(init=False, repr=False)  # [S, T] float64 uniform numbers
    latent_noise: Noise = field(init=False, repr=False)
    latents: dict[str, Tensor] = field(init=False, repr=False)
    # `small_batch.FusedDecision`: greedy decisions in kernels
    fused: Any = field(init=False, default=None, repr=False)
    _sampled: set[int] = field(init=False, default_factory=set, repr=False)  # slots with a temperature
    _noisy: set[int] = field(init=False, default_factory=set, repr=False)
    _thresholds: dict[int, float] = field(init=False, default_factory=dict, repr=False)

    def __post_init__(self):
        s, t, device = self.slots, self.answers, self.decoder.device
        thoughts = self.thinker.cap if self.kind in ("text", "other") else 0
        self.thoughts_at = HEADER + t + 1
        self.rows = torch.zeros(s, self.thoughts_at + thoughts + 1, dtype=torch.long, device=device)
        self.rows[:, DONE] = 1
        sample = self.decoder.embed(torch.zeros(1, dtype=torch.long, device=device))
        self.embeds = sample.new_zeros((s, sample.shape[1]))
        self.temperature, self.top_p = (torch.ones(s, dtype=torch.float64, device=device) for _ in range(2))
        self.greedy = torch.ones(s, dtype=torch.bool, device=device)
        self.answer_noise = torch.zeros(s, t, dtype=torch.float64, device=device)
        self.latent_noise = Noise.none(s, device)
        self.every = torch.arange(s, device=device)
        # tensors on the device, since a CUDA graph cannot copy numbers from the host
        self.pad, self.end_think, self.spare_answer, self.spare_thought = (
            torch.tensor(value, device=device)
            for value in (self.pad_id, self.markers.end_think_id, self.answers, self.thinker.cap)
        )
        self.latents = {}
        if self.keep != "none":  # one column more, for rows without a new latent
            name = "hidden" if self.keep == "readable" else "embeds"
            self.latents[name] = sample.new_zeros((s, self.thinker.cap + 1, sample.shape[1]))
        if self.keep == "all":
            vocabulary = self.decoder.logits(sample).shape[1]
            self.latents["logits"] = torch.zeros(s, self.thinker.cap + 1, vocabulary, device=device)
        self.writes_text = self.kind == "text"

    def start(self, slots: Sequence[int], lengths: Sequence[int], decodings: Sequence[Decoding], keys: Sequence[Key]):
        """Start questions in these slots, with prompts of these lengths (markers included)."""
        device = self.rows.device
        header = torch.zeros(len(slots), self.rows.shape[1], dtype=torch.long)
        header[:, THINKING] = int(self.thinker.thinks)
        header[:, HALTED] = 1
        header[:, POSITION] = torch.tensor(lengths)
        header[:, LIMIT] = torch.tensor([d.max_answer_tokens for d in decodings])
        at = self._at(slots)
        self.rows[at] = header.to(device)
        if any(d.temperature for d in decodings):
            self._start_sampling(at, decodings, keys)
        else:
            self.greedy[at] = True
        noise = Noise.of(decodings, keys, device)
        if noise is not None:
            self.latent_noise[at] = noise
        for slot, decoding in zip(slots, decodings, strict=True):
            self._sampled.add(slot) if decoding.temperature else self._sampled.discard(slot)
            self._noisy.add(slot) if decoding.noisy else self._noisy.discard(slot)
            self._thresholds.pop(slot, None)
            if decoding.halt_threshold is not None:
                self._thresholds[slot] = decoding.halt_threshold

    @property
    def sampling(self) -> bool:
        """Whether any slot samples its answer or its latents, or has a halt threshold of its own."""
        return bool(self._sampled or self._noisy or self._thresholds)

    @property
    def captured_as(self) -> tuple[bool, bool] | None:
        """Which draws a captured decision includes: of answers, of latents; None if a threshold of its own prevents capture."""
        return None if self._thresholds else (bool(self._sampled), bool(self._noisy))

    def cancel(self, slots: Sequence[int]) -> None:
        self.rows[self._at(slots), DONE] = 1
        self.reset_sampling(slots)

    def reset_sampling(self, slots: Sequence[int]) -> None:
        """Clear the decoding options of finished slots."""
        self._sampled.difference_update(slots)
        for slot in slots:
            self._thresholds.pop(slot, None)
        noisy = [slot for slot in slots if slot in self._noisy]
        if noisy:  # the next question in the slot may have no noise while others do
            self.latent_noise[self._at(noisy)] = Noise.none(len(noisy), self.rows.device)
            self._noisy.difference_update(noisy)

    def decide(self, at: At, hidden: Tensor, logits: Tensor, sampled: bool, advance: bool = True) -> None:
        """Record each row's latent or token and set its next input.

        `sampled`: some row may sample; False skips sorting and noise. `advance`: the rows have just been fed;
        False after a prefill.
        """
        rows, every = self.rows[at], self.every[at]
        if "hidden" in self.latents:  # where the thought ends here, the column is not read
            column = torch.where(rows[:, THINKING] > rows[:, DONE], rows[:, LATENTS], self.spare_thought)
            self.latents["hidden"][every, column] = hidden
        if self.fused is not None and not sampled:
            self.fused.decide(at, logits, advance)
            return
        thinking, done, made = rows[:, THINKING].bool(), rows[:, DONE].bool(), rows[:, LATENTS]
        answers, thinks = ~(thinking | done), thinking & ~done
        tokens = self._pick(at, logits, rows[:, TOKENS], sampled and bool(self._sampled))
        fed = torch.where(answers, tokens, self.pad)
        continues, halted = torch.zeros_like(thinking), rows[:, HALTED]
        decision = None
        if rows.is_cuda or bool(thinking.any()):  # on a GPU the check would synchronise
            noise = self.latent_noise[at] if sampled and self._noisy else None
            decision = self._think(hidden, logits, made, noise)
            halt = decision.halt
            if sampled and self._thresholds:
                thresholds = [self._thresholds.get(slot) for slot in every.tolist()]
                halt = override_halt(halt, logits, self.markers.end_think_id, thresholds)
            continues = thinks & ~halt & (made < self.thinker.cap)
            halted = halted * (~(thinks & ~continues & ~halt)).long()
            fed = torch.where(thinks, self.end_think, fed)
            self._store(every, made, continues, decision, logits)
        embeds = self.decoder.embed(fed)
        self.embeds[at] = embeds if decision is None else torch.where(continues[:, None], decision.embeds, embeds)
        self.rows[at, POSITION] += (~done).long() * int(advance)
        self._update_rows(at, continues, halted, answers, tokens)

    def _update_rows(self, at: At, continues: Tensor, halted: Tensor, answers: Tensor, tokens: Tensor) -> None:
        rows, every = self.rows[at], self.every[at]
        self.rows[every, HEADER + torch.where(answers, rows[:, TOKENS], self.spare_answer)] = tokens
        count = rows[:, TOKENS] + answers
        ends = answers & (tokens == self.markers.eos_id)
        done = rows[:, DONE].bool() | ends | (answers & (count >= rows[:, LIMIT]))
        columns = [done, continues, rows[:, LATENTS] + continues, count, halted, ends | (rows[:, ENDED] > 0)]
        self.rows[at, :POSITION] = torch.stack([c.long() for c in columns], dim=1)

    def _pick(self, at: At, logits: Tensor, count: Tensor, sampled: bool) -> Tensor:
        greedy = logits.argmax(-1)
        if not sampled:
            return greedy
        uniform = self.answer_noise[at].gather(1, count.clamp_max(self.answers - 1)[:, None])[:, 0]
        drawn = pick(logits, self.temperature[at][:, None], self.top_p[at][:, None], uniform)
        return torch.where(self.greedy[at], greedy, drawn)

    def _think(self, hidden: Tensor, logits: Tensor, made: Tensor, noise: Noise | None) -> NextInput:
        thinker: Any = self.thinker
        if self.kind == "soft":
            source = None if noise is None else noised(logits, noise, made, thinker.end_think_id)
            return thinker.soft_token(logits, source, self.decoder.embed, self.decoder.mixture)
        if self.kind == "text":
            tokens = logits.argmax(-1) if noise is None else noised_tokens(logits, noise, made)
            return NextInput(tokens == thinker.end_think_id, self.decoder.embed(tokens), tokens)
        if self.kind == "none":
            return NextInput(torch.ones_like(made, dtype=torch.bool), hidden)
        return thinker.next(logits, hidden, made) if noise is None else thinker.next(logits, hidden, made, noise)

    def _store(self, every: Tensor, made: Tensor, continues: Tensor, decision: NextInput, logits: Tensor) -> None:
        column = torch.where(continues, made, self.spare_thought)
        if decision.tokens is not None:
            self.writes_text = True
            self.rows[every, self.thoughts_at + column] = decision.tokens
        if "embeds" in self.latents:
            self.latents["embeds"][every, column] = decision.embeds
        if "logits" in self.latents:
            self.latents["logits"][every, column] = logits if decision.logits is None else decision.logits

    def _start_sampling(self, at: At, decodings: Sequence[Decoding], keys: Sequence[Key]) -> None:
        device = self.rows.device
        self.greedy[at] = torch.tensor([d.temperature == 0 for d in decodings], device=device)
        values = [d.temperature or 1.0 for d in decodings]
        self.temperature[at] = torch.tensor(values, dtype=torch.float64, device=device)
        self.top_p[at] = torch.tensor([d.top_p for d in decodings], dtype=torch.float64, device=device)
        noise = torch.zeros(len(keys), self.answers, dtype=torch.float64)
        for row, (decoding, key) in enumerate(zip(decodings, keys, strict=True)):
            drawn = uniforms(decoding, [key])
            if drawn is not None:
                noise[row, : drawn.shape[1]] = drawn[0]
        self.answer_noise[at] = noise.to(device)

    def _at(self, slots: Sequence[int]) -> Tensor:
        return torch.tensor(list(slots), dtype=torch.long, device=self.rows.device)

    def generation(self, slot: int, row: Sequence[int], skip: int = 0) -> Generation:
        """A slot's row, copied to the host → what `reference.generate` returns; the first `skip` latents are left out."""
        made, said = row[LATENTS], row[TOKENS]
        logits, embeds, hidden = (self.latents.get(name) for name in ("logits", "embeds", "hidden"))
        return Generation(
            answer_ids=list(row[HEADER : HEADER + said]),
            thought_ids=list(row[self.thoughts_at : self.thoughts_at + made]) if self.writes_text else [],
            latent_count=made,
            forwards=made + 1 + said if self.thinker.thinks else said,
            halted=bool(row[HALTED]),
            ended=bool(row[ENDED]),
            latent_logits=[] if logits is None else list(logits[slot, skip:made].cpu().clone()),
            latent_embeds=[] if embeds is None else list(embeds[slot, skip:made].clone()),
            latent_hidden=None if hidden is None else hidden[slot, skip:made].clone(),
        )
