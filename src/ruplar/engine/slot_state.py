"""Where every slot stands, and what it feeds next: all on the device, as tensors, with nothing read by the host.

One row of whole numbers a slot, so that a single copy tells the host everything:

    done | thinking | made | said | halted | ended | position | limit | answer ids .. | spare | thought ids .. | spare

A slot that has nothing to write down writes into the spare place. An idle slot is a done one.

Axes: S slots, B rows decided on, W latents of a block (usually 1), V vocabulary, D width, T most answer tokens, N most latents.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

from ruplar.engine.decoder import At, SlotDecoder
from ruplar.engine.halting import own_halt
from ruplar.engine.noise import Noise, noised, noised_tokens
from ruplar.engine.reference import Generation, Keep
from ruplar.engine.sampling import Decoding, Key, pick, uniforms
from ruplar.engine.soft_head import soft_thought
from ruplar.engine.thinker import NoThinker, ReplayThinker, SoftThinker, TextThinker, Thinker, Thought, asking_of

DONE, THINKING, MADE, SAID, HALTED, ENDED, POSITION, LIMIT, HEAD = range(9)


Kind = Literal["soft", "text", "none", "replay", "plain", "other"]
"""Thinkers whose decision is made here; `plain`, whose own `next` a CUDA graph may hold; `other`, called outside one."""

_KINDS: dict[type, Kind] = {SoftThinker: "soft", TextThinker: "text", NoThinker: "none", ReplayThinker: "replay"}


def kind_of(thinker: Thinker, embedding: Any) -> Kind:
    """Which kind a thinker is; one with another embedding than the model's is `other`, as is a class of its own.

    A class that says `captures` is `plain`: its `next` is tensor code that neither reads the device nor brings numbers
    from the host, and gives no tokens.
    """
    kind = _KINDS.get(type(thinker), "plain" if getattr(thinker, "captures", False) else "other")
    return "other" if kind in ("soft", "text") and getattr(thinker, "embedding", None) is not embedding else kind


@dataclass(frozen=True)
class Markers:
    """The ids that steer a thought and an answer."""

    end_think: int
    eos: int
    pad: int


@dataclass
class _PerRow:
    """Stands in for `Decoding` with one temperature and one top_p a row, both [B, 1]."""

    temperature: Tensor
    top_p: Tensor


@dataclass
class SlotState:
    """The slots' rows and the buffers beside them.

    Attributes:
        decoder: Gives embeddings.
        thinker: How a thought goes on.
        kind: See `kind_of`.
        markers: See `Markers`.
        slots: S.
        answers: T, the longest answer any slot may give.
        keep: What is kept of each latent.
    """

    decoder: SlotDecoder
    thinker: Thinker
    kind: Kind
    markers: Markers
    slots: int
    answers: int
    keep: Keep = "none"
    rows: Tensor = field(init=False, repr=False)  # [S, HEAD + T + 1 + N + 1] int64
    embeds: Tensor = field(init=False, repr=False)  # [S, W, D] what each slot feeds next; a token in every place
    temperature: Tensor = field(init=False, repr=False)  # [S] float64, 1 where greedy
    top_p: Tensor = field(init=False, repr=False)  # [S] float64
    greedy: Tensor = field(init=False, repr=False)  # [S] bool
    noise: Tensor = field(init=False, repr=False)  # [S, T] float64, the answers'
    thought_noise: Noise = field(init=False, repr=False)
    latents: dict[str, Tensor] = field(init=False, repr=False)
    fused: Any = field(init=False, default=None, repr=False)  # the greedy decision in kernels; see `few_rows`

    def __post_init__(self):
        s, t, device = self.slots, self.answers, self.decoder.device
        thoughts = self.thinker.cap if self.kind in ("text", "other") else 0
        self.thoughts_at = HEAD + t + 1
        self.rows = torch.zeros(s, self.thoughts_at + thoughts + 1, dtype=torch.long, device=device)
        self.rows[:, DONE] = 1
        sample = self.decoder.embed(torch.zeros(1, dtype=torch.long, device=device))
        self.wide = 1 + len(asking_of(self.thinker))
        self.embeds = sample.new_zeros((s, self.wide, sample.shape[1]))
        self.temperature, self.top_p = (torch.ones(s, dtype=torch.float64, device=device) for _ in range(2))
        self.greedy = torch.ones(s, dtype=torch.bool, device=device)
        self.noise = torch.zeros(s, t, dtype=torch.float64, device=device)
        self.thought_noise = Noise.none(s, device)
        self.every = torch.arange(s, device=device)
        # as tensors on the device, since a captured graph may not bring numbers from the host
        self.pad, self.end_think, self.spare_answer, self.spare_thought = (
            torch.tensor(value, device=device)
            for value in (self.markers.pad, self.markers.end_think, self.answers, self.thinker.cap)
        )
        self.latents = {}
        if self.keep != "none":  # one place more, for rows that made none
            self.latents["embeds"] = sample.new_zeros((s, self.thinker.cap + 1, sample.shape[1]))
        if self.keep == "all":
            count = self.decoder.logits(sample).shape[1]
            self.latents["logits"] = torch.zeros(s, self.thinker.cap + 1, count, device=device)
        self.written = self.kind == "text"
        if self.kind == "replay":
            self.replay = sample.new_zeros((s, self.thinker.cap + 1, sample.shape[1]))
            self.replay_count = torch.zeros(s, dtype=torch.long, device=device)

    def open(self, slots: Sequence[int], lengths: Sequence[int], decodings: Sequence[Decoding], keys: Sequence[Key]):
        """Begin questions: prompts of these lengths (opening markers included), decoded so, with these random streams."""
        device = self.rows.device
        head = torch.zeros(len(slots), self.rows.shape[1], dtype=torch.long)
        head[:, THINKING] = int(self.thinker.thinks)
        head[:, HALTED] = 1
        head[:, POSITION] = torch.tensor(lengths)
        head[:, LIMIT] = torch.tensor([d.max_answer_tokens for d in decodings])
        at = self._at(slots)
        self.rows[at] = head.to(device)
        if not all(d.temperature == 0 for d in decodings):
            self._open_streams(at, decodings, keys)
        else:
            self.greedy[at] = True
        self._open_noise(at, decodings, keys)
        for slot, decoding in zip(slots, decodings, strict=True):
            self._sampling.add(slot) if decoding.temperature else self._sampling.discard(slot)
            self._noisy.add(slot) if decoding.noisy else self._noisy.discard(slot)
            self._halts.pop(slot, None)
            if decoding.halt_threshold is not None:
                self._halts[slot] = decoding.halt_threshold

    _sampling: set[int] = field(init=False, default_factory=set, repr=False)
    _noisy: set[int] = field(init=False, default_factory=set, repr=False)
    _halts: dict[int, float] = field(init=False, default_factory=dict, repr=False)

    @property
    def sampling(self) -> bool:
        """Whether any slot draws, its answer or its thought, or halts in a way of its own."""
        return bool(self._sampling or self._noisy or self._halts)

    def load_replay(self, slots: Sequence[int], latents: Sequence[Tensor]) -> None:
        """Latents given beforehand for these slots, one [N_b, D] each."""
        for slot, given in zip(slots, latents, strict=True):
            self.replay[slot, : len(given)] = given.to(self.replay)
            self.replay_count[slot] = len(given)

    def close(self, slots: Sequence[int]) -> None:
        """Make slots idle, whatever they were doing."""
        self.rows[self._at(slots), DONE] = 1
        self.forget(slots)

    def forget(self, slots: Sequence[int]) -> None:
        """Slots whose answer is over draw no more."""
        self._sampling.difference_update(slots)
        for slot in slots:
            self._halts.pop(slot, None)
        quiet = [slot for slot in slots if slot in self._noisy]
        if quiet:  # the next question there may have no noise, and be beside others that do
            self.thought_noise[self._at(quiet)] = Noise.none(len(quiet), self.rows.device)
            self._noisy.difference_update(quiet)

    def decide(self, at: At, hidden: Tensor, logits: Tensor, sampled: bool, advance: bool = True) -> None:
        """Read what each row's last position says; note down its thought or token and prepare what it feeds next.

        Args:
            at: Which slots: a slice, or indices.
            hidden: [B, W, D], or [B, D] where W is 1: the hidden states that make the next block; the first of them makes
                the next token of an answer.
            logits: [B, W, V] or [B, V] float32.
            sampled: Some row among them may draw; False skips the sorting and the noise.
            advance: The rows have just been fed; False right after a prefill.
        """
        if self.fused is not None and not sampled:
            self.fused.decide(at, logits, advance)
            return
        if logits.dim() == 2:
            hidden, logits = hidden.reshape(len(logits), 1, -1), logits[:, None]
        rows, every, wide = self.rows[at], self.every[at], logits.shape[1]
        thinking, done = rows[:, THINKING].bool(), rows[:, DONE].bool()
        made, said = rows[:, MADE], rows[:, SAID]
        says, thinks = ~(thinking | done), thinking & ~done
        tokens = self._pick(at, logits[:, 0], said, sampled and bool(self._sampling))
        fed = torch.where(says, tokens, self.pad)
        goes_on, halted = torch.zeros_like(thinking), rows[:, HALTED]
        embeds = None
        if rows.is_cuda or bool(thinking.any()):  # on a GPU, asking would make the host wait
            noise = self.thought_noise[at] if sampled and self._noisy else None
            block = [self._think(at, hidden[:, i], logits[:, i], made + i, noise) for i in range(wide)]
            halt = block[0].halt
            if sampled and self._halts:
                own = [self._halts.get(slot) for slot in every.tolist()]
                halt = own_halt(halt, logits[:, 0], self.markers.end_think, own)
            goes_on = thinks & ~halt & (made + wide <= self.thinker.cap)
            halted = halted * (~(thinks & ~goes_on & ~halt)).long()
            fed = torch.where(thinks, self.end_think, fed)
            embeds = torch.stack([thought.embeds for thought in block], dim=1)
            embeds = torch.where(goes_on[:, None, None], embeds, self.decoder.embed(fed)[:, None])
            for i, thought in enumerate(block):
                self._keep(every, made + i, goes_on, thought, logits[:, i])
        self.embeds[at, :wide] = embeds if embeds is not None else self.decoder.embed(fed)[:, None]
        # whoever was thinking has just read its block and the tokens behind it
        self.rows[at, POSITION] += ((~done).long() + 2 * (self.wide - 1) * thinks.long()) * int(advance)
        self._write(at, goes_on, halted, says, tokens)

    def _write(self, at: At, goes_on: Tensor, halted: Tensor, says: Tensor, tokens: Tensor) -> None:
        rows, every = self.rows[at], self.every[at]
        self.rows[every, HEAD + torch.where(says, rows[:, SAID], self.spare_answer)] = tokens
        said = rows[:, SAID] + says
        ends = says & (tokens == self.markers.eos)
        done = rows[:, DONE].bool() | ends | (says & (said >= rows[:, LIMIT]))
        columns = [done, goes_on, rows[:, MADE] + self.wide * goes_on, said, halted, ends | (rows[:, ENDED] > 0)]
        self.rows[at, :POSITION] = torch.stack([c.long() for c in columns], dim=1)

    def _pick(self, at: At, logits: Tensor, said: Tensor, sampled: bool) -> Tensor:
        likeliest = logits.argmax(-1)
        if not sampled:
            return likeliest
        uniform = self.noise[at].gather(1, said.clamp_max(self.answers - 1)[:, None])[:, 0]
        per_row: Any = _PerRow(self.temperature[at][:, None], self.top_p[at][:, None])
        return torch.where(self.greedy[at], likeliest, pick(logits, per_row, uniform))

    def _think(self, at: At, hidden: Tensor, logits: Tensor, made: Tensor, noise: Noise | None) -> Thought:
        thinker: Any = self.thinker
        if self.kind == "soft":
            made_from = logits if noise is None else noised(logits, noise, made, thinker.end_think_id)
            return soft_thought(thinker, self.decoder, logits, made_from)
        if self.kind == "text":
            tokens = logits.argmax(-1) if noise is None else noised_tokens(logits, noise, made)
            return Thought(tokens == thinker.end_think_id, self.decoder.embed(tokens), tokens)
        if self.kind == "replay":
            given = self.replay[self.every[at], made.clamp_max(thinker.cap)]
            return Thought(made >= self.replay_count[at], given)
        if self.kind == "none":
            return Thought(torch.ones_like(made, dtype=torch.bool), hidden)
        return thinker.next(logits, hidden, made) if noise is None else thinker.next(logits, hidden, made, noise)

    def _keep(self, every: Tensor, made: Tensor, goes_on: Tensor, thought: Thought, logits: Tensor) -> None:
        place = torch.where(goes_on, made, self.spare_thought)
        if thought.tokens is not None:
            self.written = True
            self.rows[every, self.thoughts_at + place] = thought.tokens
        if "embeds" in self.latents:
            self.latents["embeds"][every, place] = thought.embeds
        if "logits" in self.latents:
            self.latents["logits"][every, place] = logits if thought.logits is None else thought.logits

    def _open_noise(self, at: At, decodings: Sequence[Decoding], keys: Sequence[Key]) -> None:
        found = Noise.of(decodings, keys, self.rows.device)
        if found is not None:
            self.thought_noise[at] = found

    def _open_streams(self, at: At, decodings: Sequence[Decoding], keys: Sequence[Key]) -> None:
        device = self.rows.device
        hot = [d.temperature > 0 for d in decodings]
        self.greedy[at] = torch.tensor([not h for h in hot], device=device)
        values = [d.temperature or 1.0 for d in decodings]
        self.temperature[at] = torch.tensor(values, dtype=torch.float64, device=device)
        self.top_p[at] = torch.tensor([d.top_p for d in decodings], dtype=torch.float64, device=device)
        noise = torch.zeros(len(keys), self.answers, dtype=torch.float64)
        for row, (decoding, key) in enumerate(zip(decodings, keys, strict=True)):
            drawn = uniforms(decoding, [key])
            if drawn is not None:
                noise[row, : drawn.shape[1]] = drawn[0]
        self.noise[at] = noise.to(device)

    def _at(self, slots: Sequence[int]) -> Tensor:
        return torch.tensor(list(slots), dtype=torch.long, device=self.rows.device)

    def generation(self, slot: int, row: Sequence[int], told: int = 0) -> Generation:
        """A slot's row, as read by the host, → what `reference.generate` returns; the first `told` latents are not copied."""
        made, said = row[MADE], row[SAID]
        return Generation(
            answer_ids=list(row[HEAD : HEAD + said]),
            thought_ids=list(row[self.thoughts_at : self.thoughts_at + made]) if self.written else [],
            latent_count=made,
            forwards=made // self.wide + 1 + said if self.thinker.thinks else said,
            halted=bool(row[HALTED]),
            ended=bool(row[ENDED]),
            latent_logits=list(self.latents["logits"][slot, told:made].cpu().clone())
            if "logits" in self.latents
            else [],
            latent_embeds=list(self.latents["embeds"][slot, told:made].clone()) if "embeds" in self.latents else [],
        )
