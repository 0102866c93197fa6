"""Several samples of one question → one prefill: which rows are admitted together, and how a prompt's cache is copied.

Rows that hold the same prompt and are admitted at the same time read it once; its keys and values are then copied to the
other rows' slots, and each makes its own first decision.

    prompts  A A A B      read  A B      slots  0 1 2 3:  A read in 0, copied to 1 and 2; B read in 3
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from ruplar.engine.fast import FastEngine
    from ruplar.engine.scheduler import Ticket


def prefill_shared(engine: FastEngine, slots: Sequence[int], sequences: Sequence[Sequence[int]]) -> None:
    """Read each different sequence once, copy it to all slots that hold it, and let these decide."""
    different = list(dict.fromkeys(map(tuple, sequences)))
    row_of = {sequence: row for row, sequence in enumerate(different)}
    rows = [row_of[tuple(sequence)] for sequence in sequences]
    leaders = [slots[rows.index(row)] for row in range(len(different))]
    width = max(map(len, different))
    ids = torch.full((len(different), width + 2), engine.backbone.pad_id)
    for row, (slot, sequence) in enumerate(zip(leaders, different, strict=True)):
        ids[row, : len(sequence)] = torch.tensor(sequence)
        ids[row, width], ids[row, width + 1] = len(sequence), slot
    device = engine.decoder.device
    hidden, logits = engine.prompt_logits(ids.to(device))
    index, at = torch.tensor(rows, device=device), torch.tensor(list(slots), device=device)
    engine.decoder.copy(torch.tensor([leaders[row] for row in rows], device=device), at, width)
    engine.ledger.decide(at, hidden[index], logits[index], engine.ledger.sampling, advance=False)


def together(queue: Sequence[Ticket], free: int, slots: int) -> int:
    """How many of the queue to take: one a free slot, but samples of one question all at once, where they can be."""
    count = min(free, len(queue))
    if count == len(queue) or not _alike(queue[count - 1], queue[count]):
        return count
    first = count - 1
    while first and _alike(queue[first - 1], queue[first]):
        first -= 1
    size = sum(1 for ticket in islice(queue, first, first + slots + 1) if _alike(ticket, queue[first]))
    return first if size <= slots else count  # more of them than slots never fit


def split(tickets: list[Ticket], tokens: int) -> tuple[list[Ticket], list[Ticket]]:
    """Sorted by length: the shortest questions that prefill together in at most so many padded tokens, and the rest."""
    count = prompts = 1
    while count < len(tickets):
        other = not _alike(tickets[count - 1], tickets[count])
        if other and (prompts + 1) * (len(tickets[count].request.prompt.ids) + 2) > tokens:
            break
        count, prompts = count + 1, prompts + other
    return tickets[:count], tickets[count:]


def _alike(a: Ticket, b: Ticket) -> bool:
    return a.request.prompt.ids == b.request.prompt.ids
