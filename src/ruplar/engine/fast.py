"""Prompts in slots → answers: the fast engine, which agrees with `reference.generate` token for token in float32.

A decode step feeds every busy slot one embedding, be it a latent, `</think>` or an answer token, and decides on the device
what each slot feeds next; the host learns one step later which slots are done. On a GPU a step is one CUDA graph per number
of rows (without our kernels also per number of columns read).

    admit   prompts –prefill→ hidden –head→ logits –decide→ next inputs, slot state
    step    next inputs –decoder→ hidden –head→ logits –decide→ next inputs, slot state
    harvest slot state → Generation of each finished slot, which is then free
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from ruplar.engine.decoder import At, Decoder, SlotDecoder, matrix_products
from ruplar.engine.graphs import Graphs, Snapshots
from ruplar.engine.hf_decoder import HFDecoder
from ruplar.engine.layer_kernels import load_layer_kernels
from ruplar.engine.options import EngineOptions, Request
from ruplar.engine.prefix_sharing import unique_rows
from ruplar.engine.reference import Generation
from ruplar.engine.sampling import Decoding, Key
from ruplar.engine.slot_state import DONE, POSITION, Kind, SlotState, kind_of
from ruplar.engine.small_batch import load_fused_decision, load_small_batch, power_of_two
from ruplar.engine.thinker import Thinker, check_decoding, room
from ruplar.errors import UserError
from ruplar.model.backbone import Backbone
from ruplar.types import Prompt

COLUMN_STEP = 64  # on a GPU, columns are rounded up to a multiple of this, so that few graphs are captured
CAPTURED_PREFILL = 1024  # tokens; a larger prefill takes long enough to hide its kernel launches


class Unsupported(UserError):
    """The model runs only in the reference engine."""


@dataclass
class _Slot:
    """What the host knows about a busy slot without reading from the device."""

    position: int  # at most
    left: int  # decode steps that may still come
    since: int  # first snapshot that includes this question
    listen: Callable[[Generation], None] | None = None
    reported: int = 0  # latents already passed to `listen`


@dataclass
class FastEngine:
    """See the module's docstring. Made by `FastEngine.of`; driven by `scheduler.Scheduler`, from one thread at a time."""

    backbone: Backbone
    thinker: Thinker
    kind: Kind
    decoding: Decoding
    slots: int
    options: EngineOptions
    decoder: SlotDecoder
    state: SlotState = field(init=False, repr=False)
    snapshots: Snapshots = field(init=False, repr=False)
    graphs: Graphs | None = field(init=False, default=None, repr=False)
    busy: dict[int, _Slot] = field(init=False, default_factory=dict, repr=False)
    _graph_inputs: dict[tuple, Tensor] = field(init=False, default_factory=dict, repr=False)

    @classmethod
    def of(
        cls,
        backbone: Backbone,
        thinker: Thinker,
        decoding: Decoding | None = None,
        slots: int = 16,
        options: EngineOptions | None = None,
    ) -> FastEngine:
        """Make an engine for this model and thinker, or raise `Unsupported`.

        The thinker must not keep state per row between calls. `decoding.max_answer_tokens` is the limit of all
        questions.
        """
        options = options or EngineOptions()
        backbone.model.eval()
        kind = kind_of(thinker, backbone.embedding)  # before an adapter is merged, which replaces the module
        decoder: SlotDecoder | None = Decoder.of(backbone, options.release)
        if isinstance(decoder, Decoder) and options.kernels:
            decoder.layer_kernels = load_layer_kernels(decoder)
            decoder.small_batch = load_small_batch(decoder)
        decoder = decoder or HFDecoder.of(backbone)
        if decoder is None:
            raise Unsupported(
                "the fast engine, which engine 'fast' and `ruplar serve` need, does not support the layers of "
                f"{type(backbone.plain_model).__name__}. Use engine 'auto' or 'reference' in Python."
            )
        engine = cls(backbone, thinker, kind, decoding or Decoding(), slots, options, decoder)
        engine._allocate(min(options.columns, attention_window(backbone)))
        return engine

    @torch.inference_mode()
    def _allocate(self, columns: int) -> None:
        spent = self.graphs.seconds if self.graphs is not None else 0.0
        self.graphs = None  # they point into the old buffers
        self.decoder.allocate(self.slots + 1, columns)  # one slot to spare, for rows that only fill a bucket
        self.state = SlotState(
            self.decoder,
            self.thinker,
            self.kind,
            self.backbone.markers,
            self.backbone.pad_id,
            self.slots + 1,
            self.decoding.max_answer_tokens,
            self.options.keep,
        )
        on_gpu = self.decoder.device.type == "cuda"
        if on_gpu and self.options.kernels and isinstance(self.decoder, Decoder):
            self.state.fused = load_fused_decision(self.state, self.decoder)
        self.snapshots = Snapshots(self.state.rows, lag=int(on_gpu))
        if on_gpu and isinstance(self.decoder, Decoder):
            self.graphs = Graphs([self.state.rows, self.state.embeds], seconds=spent)

    @property
    def opening(self) -> list[int]:
        b = self.backbone
        return [b.think_id] if self.thinker.thinks else [b.think_id, b.end_think_id]

    def need(self, prompt: Prompt, decoding: Decoding) -> int:
        return len(prompt.ids) + room(self.thinker) + decoding.max_answer_tokens

    @property
    def prefill_tokens(self) -> int:
        """Maximum number of padded tokens of one prefill: what fills a GPU, or what fits into a CPU's cache."""
        return 16384 if self.decoder.device.type == "cuda" else 1024

    def reserve(self, columns: int) -> None:
        """Reallocate for questions of this many columns if needed; only while nothing is in flight."""
        if not self.has_room(columns):
            raise UserError(
                f"the model's attention window is {attention_window(self.backbone)} positions, but a question may need "
                f"{columns}. Use the reference engine (engine: reference), or shorten prompts or max_answer_tokens."
            )
        if columns > self.decoder.columns:
            assert not self.busy, "slots are in use"
            self._allocate(min(_round_up(columns, COLUMN_STEP), attention_window(self.backbone)))

    def has_room(self, columns: int) -> bool:
        """Whether questions of this many columns fit into the model's attention window."""
        return columns <= attention_window(self.backbone)

    @torch.inference_mode()
    def admit(self, slots: Sequence[int], requests: Sequence[Request]) -> None:
        """Prefill questions into free slots and make their first decision; similar lengths need the least padding."""
        sequences = [[*r.prompt.ids, *self.opening] for r in requests]
        lengths = [len(s) for s in sequences]
        self.state.start(slots, lengths, [r.decoding for r in requests], [r.key for r in requests])
        most_latents = self.thinker.cap + 1 if self.thinker.thinks else 0  # the last one is </think>
        for slot, request, length in zip(slots, requests, lengths, strict=True):
            left = most_latents + request.decoding.max_answer_tokens - 1
            self.busy[slot] = _Slot(length, left, self.snapshots.count, request.listen)
        unique, rows = unique_rows(sequences)
        if len(unique) < len(sequences):
            self._prefill_shared(list(slots), unique, rows)
        else:
            self._prefill(list(slots), sequences)
        self.snapshots.take()
        if not self.state.rows.is_cuda:  # on a GPU reporting now would synchronise
            self._report(self.snapshots.count - 1, self.state.rows)

    def _prefill(self, slots: list[int], sequences: list[list[int]]) -> None:
        width = max(map(len, sequences))
        captured = self.graphs is not None
        if captured:
            rows, padded = power_of_two(len(slots)), _round_up(width, COLUMN_STEP)
            captured = rows * padded <= CAPTURED_PREFILL
            width = min(padded if captured else _round_up(width, 8), self.decoder.columns)
            if captured:  # fill the bucket with rows in the spare slot
                short = rows - len(slots)
                slots, sequences = slots + [self.slots] * short, sequences + sequences[-1:] * short
        ids = self._prefill_input(slots, sequences, width)
        if not captured or self.graphs is None:
            ids = ids.to(self.decoder.device)
            self.state.decide(ids[:, -1], *self.prompt_logits(ids), self.state.sampling, advance=False)
            return
        key = ("prefill", *ids.shape)
        static = self._graph_inputs.setdefault(key, ids.to(self.decoder.device))
        static.copy_(ids)
        self._run_captured(key, lambda: self.prompt_logits(static), static[:, -1])

    def _prefill_shared(self, slots: list[int], unique: Sequence[Sequence[int]], rows: list[int]) -> None:
        """Prefill each different sequence once, copy it to the slots of its other rows, and decide for all rows."""
        leaders = [slots[rows.index(row)] for row in range(len(unique))]
        width, device = max(map(len, unique)), self.decoder.device
        hidden, logits = self.prompt_logits(self._prefill_input(leaders, unique, width).to(device))
        index, at = torch.tensor(rows, device=device), torch.tensor(slots, device=device)
        self.decoder.copy(torch.tensor([leaders[row] for row in rows], device=device), at, width)
        self.state.decide(at, hidden[index], logits[index], self.state.sampling, advance=False)

    def _prefill_input(self, slots: Sequence[int], sequences: Sequence[Sequence[int]], width: int) -> Tensor:
        """[P, width + 2] padded ids, then each row's length and slot: one tensor, so that one copy moves it."""
        ids = torch.full((len(slots), width + 2), self.backbone.pad_id)
        ids[:, width], ids[:, width + 1] = torch.tensor([len(s) for s in sequences]), torch.tensor(slots)
        ids[:, :width][torch.arange(width) < ids[:, width, None]] = torch.tensor([i for s in sequences for i in s])
        return ids

    def prompt_logits(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Prefill; `ids` as made by `_prefill_input` → hidden states and logits of each last position."""
        with matrix_products(self.state.embeds):
            hidden = self.decoder.prefill(self.decoder.embed(ids[:, :-2]), ids[:, -2], ids[:, -1])
            return hidden, self._logits(hidden)

    @torch.inference_mode()
    def step(self) -> bool:
        """Feed every busy slot once; False if no slot can still need it."""
        active = [b for b in self.busy.values() if b.left > 0]
        if not active:
            return False
        rows, used = max(self.busy) + 1, max(b.position for b in active) + 1
        if self.graphs is not None:
            rows = min(power_of_two(rows), self.slots)
            used = min(_round_up(used, COLUMN_STEP), self.decoder.columns)
            if getattr(self.decoder, "layer_kernels", None) is not None:  # these read up to each row's position
                used = self.decoder.columns
            self._run_captured(("step", rows, used), lambda: self._step_logits(rows, used), slice(0, rows))
        else:
            used = min(used, self.decoder.columns)
            self.state.decide(slice(0, rows), *self._step_logits(rows, used), self.state.sampling)
        for b in active:
            b.left, b.position = b.left - 1, b.position + 1
        self.snapshots.take()
        return True

    def _step_logits(self, rows: int, used: int) -> tuple[Tensor, Tensor]:
        state = self.state
        with matrix_products(state.embeds):
            hidden = self.decoder.step(state.embeds[:rows], state.rows[:rows, POSITION], used)
            return hidden, self._logits(hidden)

    def _logits(self, hidden: Tensor) -> Tensor:
        """Logits as the decision takes them: only the one by PyTorch operators needs float32."""
        if self.state.fused is not None and not self.state.sampling:
            return self.state.fused.decoder.raw_logits(hidden)
        return self.decoder.logits(hidden)

    def _run_captured(self, key: tuple, logits: Callable[[], tuple[Tensor, Tensor]], at: At) -> None:
        """Run forward and decision as one CUDA graph; a decision that cannot be captured stays outside."""
        assert self.graphs is not None
        advance, draws, sampled = key[0] == "step", self.state.captured_as, self.state.sampling
        if draws is None or self.kind == "other":
            hidden, found = self.graphs.run(("logits", *key), logits)
            self.state.decide(at, hidden, found, sampled, advance)
            return

        def work() -> None:
            hidden, found = logits()
            self.state.decide(at, hidden, found, sampled, advance)

        self.graphs.run((*draws, *key), work)

    @torch.inference_mode()
    def harvest(self) -> list[tuple[int, Generation]]:
        """Free the slots that are known to be finished → their numbers and what they produced."""
        idle = all(b.left == 0 for b in self.busy.values())
        found = []
        for number, rows in self.snapshots.read(flush=idle):
            done = rows[:, DONE].tolist()
            ready = [s for s, b in self.busy.items() if done[s] and number >= b.since]
            for slot in ready:
                del self.busy[slot]
                found.append((slot, self.state.generation(slot, rows[slot].tolist())))
            self._report(number, rows)
        if found:
            self.state.reset_sampling([slot for slot, _ in found])
        return found

    def _report(self, number: int, rows: Tensor) -> None:
        """Pass the progress of questions in flight to their listeners."""
        for slot, b in self.busy.items():
            if b.listen is not None and number >= b.since:
                progress = self.state.generation(slot, rows[slot].tolist(), b.reported)
                b.reported = progress.latent_count
                b.listen(progress)

    @torch.inference_mode()
    def drop(self, slots: Sequence[int]) -> None:
        """Free slots whose questions are given up, also those whose prefill has failed."""
        for slot in slots:
            self.busy.pop(slot, None)
        if slots:
            self.state.cancel(slots)

    def request(self, prompt: Prompt, key: Key = 0, decoding: Decoding | None = None) -> Request:
        """Make a request for `admit`."""
        decoding = decoding or self.decoding
        check_decoding(self.thinker, decoding)
        most, wanted = self.decoding.max_answer_tokens, decoding.max_answer_tokens
        if wanted > most:
            raise UserError(f"max_answer_tokens: at most {most} here, got {wanted}.")
        return Request(prompt, decoding, key)


def _round_up(count: int, multiple: int) -> int:
    return -(-count // multiple) * multiple


def attention_window(backbone: Backbone) -> int:
    """Return how many positions back some layer of the model can attend; a very large number if all can attend to all."""
    config = backbone.plain_model.config
    window = getattr(config, "sliding_window", None) or getattr(config, "window_size", None)  # the second is GPT-Neo's
    kinds = getattr(config, "layer_types", None) or getattr(config, "attention_layers", None)
    limited = kinds is None or not {"sliding_attention", "local"}.isdisjoint(kinds)
    return window if window and limited and getattr(config, "use_sliding_window", True) else sys.maxsize
