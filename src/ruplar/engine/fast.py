"""Prompts in slots → answers: the fast loop, which agrees with `reference.generate` token for token in float32.

A step feeds every busy slot one embedding, be it a soft token, `</think>` or an answer token, and decides on the device
what each feeds next; the host only learns, a step later, who is done. On a GPU a step is one captured graph per number
of rows and of columns read. Where a forward makes a block of W soft tokens, a step feeds every slot 2 W - 1 embeddings while
one of them may be thinking; of a slot that is not, only the first counts, and what the others leave in the cache is written
over before it is read.

    admit   prompts –prefill→ hidden –head→ logits –decide→ embeds, ledger
    step    embeds –decoder→ hidden –head→ logits –decide→ embeds, ledger
    harvest ledger → Generation of each finished slot, which is then free
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from ruplar.engine.decoder import At, Decoder, SlotDecoder
from ruplar.engine.graphs import Graphs, Views
from ruplar.engine.halting import check_threshold
from ruplar.engine.hf_decoder import HFDecoder
from ruplar.engine.layer_kernels import between
from ruplar.engine.options import EngineOptions, Request
from ruplar.engine.prefix_sharing import prefill_shared
from ruplar.engine.reference import Generation
from ruplar.engine.sampling import Decoding, Key
from ruplar.engine.slot_state import DONE, POSITION, THINKING, Kind, Markers, SlotState, kind_of
from ruplar.engine.small_batch import few_rows, fused_decision
from ruplar.engine.thinker import ReplayThinker, Thinker, asking_of, check_noise, room
from ruplar.errors import UserError
from ruplar.model.backbone import Backbone
from ruplar.types import Prompt

COLUMN_STEP = 64  # on a GPU, attention reads a multiple of this many columns, so that few graphs are captured
CAPTURED_PREFILL = 1024  # tokens; a larger prefill is long enough to hide its launches


@dataclass
class _Busy:
    """What the host knows of a slot without asking: the most it can be at."""

    position: int
    left: int  # decisions that may still come
    since: int  # first snapshot that knows of this question
    listen: Callable[[Generation], None] | None = None
    told: int = 0  # latents already told of
    thinks: bool = True  # as far as is known


@dataclass
class FastEngine:
    """See the module's docstring. Made by `FastEngine.of`; driven by `scheduler.Scheduler`, by one thread at a time."""

    backbone: Backbone
    thinker: Thinker
    kind: Kind
    decoding: Decoding
    slots: int
    options: EngineOptions
    decoder: SlotDecoder
    ledger: SlotState = field(init=False, repr=False)
    views: Views = field(init=False, repr=False)
    graphs: Graphs | None = field(init=False, default=None, repr=False)
    busy: dict[int, _Busy] = field(init=False, default_factory=dict, repr=False)

    @classmethod
    def of(
        cls,
        backbone: Backbone,
        thinker: Thinker,
        decoding: Decoding | None = None,
        slots: int = 16,
        options: EngineOptions | None = None,
    ) -> FastEngine | None:
        """An engine for this model and way of thinking, or None where the model runs only in the plain loop.

        Args:
            backbone: The model.
            thinker: How it thinks; one that remembers rows from call to call is not for this engine.
            decoding: How answers are decoded unless a question says otherwise; its max_answer_tokens holds for all.
            slots: Questions in flight.
            options: See `EngineOptions`.
        """
        options = options or EngineOptions()
        backbone.model.eval()
        kind = kind_of(thinker, backbone.embedding)  # before an adapter is folded in, which changes the module
        decoder: SlotDecoder | None = Decoder.of(backbone, options.release)
        if isinstance(decoder, Decoder) and options.kernels:
            decoder.between = between(decoder)
            decoder.few_rows = few_rows(decoder, options.early)
        decoder = decoder or HFDecoder.of(backbone)
        if decoder is None or (asking_of(thinker) and not isinstance(decoder, Decoder)):
            return None
        engine = cls(backbone, thinker, kind, decoding or Decoding(), slots, options, decoder)
        engine._allocate(options.columns)
        return engine

    @torch.inference_mode()
    def _allocate(self, columns: int) -> None:
        self.graphs = None  # they look into the buffers that are about to go
        limit = _window(self.backbone)
        if limit and columns > limit:
            raise UserError(
                f"the model's layers read {limit} positions back, but a question here may take {columns}, which only "
                "the plain loop handles (engine: reference). Choose it, or shorten prompts or max_answer_tokens."
            )
        markers = Markers(self.backbone.end_think_id, self.backbone.eos_id, self.backbone.pad_id)
        self.decoder.allocate(self.slots + 1, columns)  # one to spare, never busy, for rows that only fill a bucket
        self.ledger = SlotState(
            self.decoder,
            self.thinker,
            self.kind,
            markers,
            self.slots + 1,
            self.decoding.max_answer_tokens,
            self.options.keep,
        )
        on_gpu = self.decoder.device.type == "cuda"
        if on_gpu and self.options.kernels and isinstance(self.decoder, Decoder) and self.wide == 1:
            self.ledger.fused = fused_decision(self.ledger, self.decoder)
        self._asking = torch.tensor(asking_of(self.thinker), dtype=torch.long, device=self.decoder.device)
        self.views = Views(self.ledger.rows, lag=int(on_gpu))
        if on_gpu and self.options.graphs and isinstance(self.decoder, Decoder):
            self.graphs = Graphs([self.ledger.rows, self.ledger.embeds])

    @property
    def opening(self) -> list[int]:
        """The markers that follow every prompt."""
        b = self.backbone
        return [b.think_id, *asking_of(self.thinker), *([] if self.thinker.thinks else [b.end_think_id])]

    @property
    def wide(self) -> int:
        """Latents that one forward makes."""
        return 1 + len(asking_of(self.thinker)) if self.thinker.thinks else 1

    @property
    def thought(self) -> int:
        """Decisions a thought takes at most, the last one on its end included."""
        return self.thinker.cap // self.wide + 1 if self.thinker.thinks else 0

    def need(self, prompt: Prompt, decoding: Decoding) -> int:
        """Columns a question takes at most."""
        return len(prompt.ids) + room(self.thinker) + decoding.max_answer_tokens

    @property
    def prefill_tokens(self) -> int:
        """Most padded tokens of one prefill."""
        return self.options.prefill_tokens or (16384 if self.decoder.device.type == "cuda" else 1024)

    def reserve(self, columns: int) -> None:
        """Make room for questions of that many columns; only while nothing is in flight."""
        if columns > self.decoder.columns:
            assert not self.busy, "slots are in use"
            self._allocate(-(-columns // COLUMN_STEP) * COLUMN_STEP)

    def has_room(self, columns: int) -> bool:
        """Whether questions of that many columns can be reserved; not where layers read fewer positions back."""
        return -(-columns // COLUMN_STEP) * COLUMN_STEP <= (_window(self.backbone) or math.inf)

    @torch.inference_mode()
    def admit(self, slots: Sequence[int], requests: Sequence[Request]) -> None:
        """Prefill questions into free slots and make their first decision. Similar lengths pad least."""
        sequences = [[*r.prompt.ids, *self.opening] for r in requests]
        lengths = [len(s) for s in sequences]
        self.ledger.open(slots, lengths, [r.decoding for r in requests], [r.key for r in requests])
        if self.kind == "replay":
            self.ledger.load_replay(slots, [r.replay for r in requests if r.replay is not None])
        for slot, request, length in zip(slots, requests, lengths, strict=True):
            left = self.thought + request.decoding.max_answer_tokens - 1
            self.busy[slot] = _Busy(length, left, self.views.taken, request.listen)
        shared = len(set(map(tuple, sequences))) < len(sequences)
        prefill_shared(self, slots, sequences) if shared else self._prefill(list(slots), sequences)
        self.views.take()
        if (
            not self.ledger.rows.is_cuda
        ):  # a step follows before the next harvest; on a GPU nobody waits for the device
            self._tell(self.views.taken - 1, self.ledger.rows)

    def _prefill(self, slots: list[int], sequences: list[list[int]]) -> None:
        width = max(map(len, sequences))
        captured = self.graphs is not None
        if captured:
            rows, padded = _bucket(len(slots), 1 << 30), -(-width // COLUMN_STEP) * COLUMN_STEP
            captured = rows * padded <= CAPTURED_PREFILL
            width = min(padded if captured else -(-width // 8) * 8, self.decoder.columns)
            if captured:  # rows that fill the bucket go to the spare slot
                short = rows - len(slots)
                slots, sequences = slots + [self.slots] * short, sequences + sequences[-1:] * short
        ids = torch.full((len(slots), width + 2), self.backbone.pad_id)
        for row, (slot, sequence) in enumerate(zip(slots, sequences, strict=True)):
            ids[row, : len(sequence)] = torch.tensor(sequence)
            ids[row, width], ids[row, width + 1] = len(sequence), slot
        if not captured or self.graphs is None:
            self._prefilled(ids.to(self.decoder.device), self.ledger.sampling)
            return
        key = ("prefill", *ids.shape)
        static = self._inputs.setdefault(key, ids.to(self.decoder.device))
        static.copy_(ids)
        self._captured(key, lambda: self.prompt_logits(static), static[:, -1])

    _asking: Tensor = field(init=False, repr=False)
    _inputs: dict[tuple, Tensor] = field(init=False, default_factory=dict, repr=False)

    def prompt_logits(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """[P, L + 2]: ids, then each row's length and slot → hidden and logits of each last position."""
        lengths, at = ids[:, -2], ids[:, -1]
        embeds = self.decoder.embed(ids[:, :-2])
        if self.wide > 1 and isinstance(self.decoder, Decoder):
            return self._read(self.decoder.prefill(embeds, lengths, at, self.wide))
        return self._read(self.decoder.prefill(embeds, lengths, at))

    def _read(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Hidden [B, D] or [B, W, D] and their logits."""
        return hidden, self.decoder.logits(hidden.flatten(0, -2)).unflatten(0, hidden.shape[:-1])

    def _prefilled(self, ids: Tensor, sampled: bool) -> None:
        self.ledger.decide(ids[:, -1], *self.prompt_logits(ids), sampled, advance=False)

    @torch.inference_mode()
    def step(self) -> bool:
        """Feed every busy slot once; False when no slot can still need it."""
        waiting = {slot: b for slot, b in self.busy.items() if b.left > 0}
        if not waiting:
            return False
        wide = self.wide if any(b.thinks for b in waiting.values()) else 1
        rows, used = max(self.busy) + 1, max(b.position for b in waiting.values()) + 2 * wide - 1
        if self.graphs is not None:
            rows = _bucket(rows, self.slots)
            few = getattr(self.decoder, "few_rows", None)
            # kernels for few rows see for themselves how far to read
            whole = few is not None and rows <= few.most and wide == 1
            used = self.decoder.columns if whole else min(-(-used // COLUMN_STEP) * COLUMN_STEP, self.decoder.columns)
            self._captured(("step", wide, rows, used), lambda: self._step_logits(rows, used, wide), slice(0, rows))
        else:
            used = min(used, self.decoder.columns)
            self.ledger.decide(slice(0, rows), *self._step_logits(rows, used, wide), self.ledger.sampling)
        for b in waiting.values():
            b.left, b.position = b.left - 1, b.position + 2 * wide - 1
        self.views.take()
        return True

    def _step_logits(self, rows: int, used: int, wide: int) -> tuple[Tensor, Tensor]:
        at, book = slice(0, rows), self.ledger
        if wide == 1 or not isinstance(self.decoder, Decoder):
            return self._read(self.decoder.step(book.embeds[at, 0], book.rows[at, POSITION], used))
        behind = self.decoder.embed(self._asking).expand(rows, -1, -1)
        hidden = self.decoder.block(torch.cat([book.embeds[at], behind], dim=1), book.rows[at, POSITION], used)
        thinking = book.rows[at, THINKING, None, None].bool()
        return self._read(torch.where(thinking, hidden[:, wide - 1 :], hidden[:, :1]))

    def _captured(self, key: tuple, logits, at: At) -> None:
        """Logits and decision as one graph; the decision outside it where it sorts the vocabulary or is not ours."""
        assert self.graphs is not None
        advance = key[0] == "step"
        if self.ledger.sampling or self.kind == "other":
            hidden, found = self.graphs.run(("logits", *key), logits)
            self.ledger.decide(at, hidden, found, self.ledger.sampling, advance)
            return

        def work() -> None:
            hidden, found = logits()
            self.ledger.decide(at, hidden, found, False, advance)

        self.graphs.run(key, work)

    @torch.inference_mode()
    def harvest(self) -> list[tuple[int, Generation]]:
        """The slots found finished, now free, with what they produced."""
        idle = all(b.left == 0 for b in self.busy.values())
        found = []
        for number, rows in self.views.read(all_of_them=idle):
            done, thinking = rows[:, DONE].tolist(), rows[:, THINKING].tolist()
            for slot, b in self.busy.items():
                b.thinks = b.thinks and (number < b.since or bool(thinking[slot]))
            ready = [s for s, b in self.busy.items() if done[s] and number >= b.since]
            for slot in ready:
                del self.busy[slot]
                found.append((slot, self.ledger.generation(slot, rows[slot].tolist())))
            self._tell(number, rows)
        if found:
            self.ledger.forget([slot for slot, _ in found])
        return found

    def _tell(self, number: int, rows: Tensor) -> None:
        """Let those who listen to a question under way hear what it has come to."""
        for slot, b in self.busy.items():
            if b.listen is not None and number >= b.since:
                so_far = self.ledger.generation(slot, rows[slot].tolist(), b.told)
                b.told = so_far.latent_count
                b.listen(so_far)

    @torch.inference_mode()
    def drop(self, slots: Sequence[int]) -> None:
        """Free slots whose answer nobody wants any more."""
        held = [slot for slot in slots if self.busy.pop(slot, None)]
        if held:
            self.ledger.close(held)

    def request(self, prompt: Prompt, key: Key = 0, decoding: Decoding | None = None, place: int = 0) -> Request:
        """A question for `admit`; with latents given beforehand, those of its `place`."""
        replay = self.thinker.latents[place] if isinstance(self.thinker, ReplayThinker) else None
        decoding = decoding or self.decoding
        check_noise(self.thinker, decoding)
        check_threshold(self.thinker, decoding)
        if decoding.max_answer_tokens > self.decoding.max_answer_tokens:
            raise UserError(
                f"max_answer_tokens: at most {self.decoding.max_answer_tokens} here, got {decoding.max_answer_tokens}."
            )
        return Request(prompt, decoding, key, replay)


def _bucket(count: int, most: int) -> int:
    """The smallest power of two that holds `count`, but not more than `most`."""
    return min(1 << (count - 1).bit_length(), most)


def _window(backbone: Backbone) -> int | None:
    """How many positions back the model's layers read, where that is limited."""
    config = backbone.plain_model.config
    window = getattr(config, "sliding_window", None)
    kinds = getattr(config, "layer_types", None)
    if not window or not getattr(config, "use_sliding_window", True):
        return None
    return window if kinds is None or "sliding_attention" in kinds else None
