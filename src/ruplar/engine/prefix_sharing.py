"""Several samples of one question → one prefill: plain functions on prompts, used by the scheduler and the engine.

Rows with the same prompt that are admitted together prefill it once; its keys and values are then copied to the slots of
the other rows, and each row makes its own first decision.

    prompts  A A A B      prefill  A B      slots  0 1 2 3:  A in slot 0, copied to 1 and 2; B in slot 3
"""

from collections.abc import Sequence
from itertools import islice

from ruplar.types import Prompt

Ids = Sequence[int]


def unique_rows(sequences: Sequence[Ids]) -> tuple[list[tuple[int, ...]], list[int]]:
    """Sequences → the different ones in order, and for each sequence the index of its copy among them."""
    unique = list(dict.fromkeys(map(tuple, sequences)))
    index = {sequence: row for row, sequence in enumerate(unique)}
    return unique, [index[tuple(sequence)] for sequence in sequences]


def admit_count(waiting: Sequence[Prompt], free: int, slots: int) -> int:
    """How many waiting prompts to admit: one per free slot, but all samples of one request together if they fit.

    Samples of a request have the same object as their prompt; equal questions of different clients do not wait for each other.
    """
    count = min(free, len(waiting))
    if count == len(waiting) or waiting[count - 1] is not waiting[count]:
        return count
    first = next(at for at in range(count) if waiting[at] is waiting[count])
    size = sum(prompt is waiting[count] for prompt in islice(waiting, first, first + slots + 1))
    return first if size <= slots else count


def prefill_count(prompts: Sequence[Ids], tokens: int) -> int:
    """How many of the prompts, sorted by length, to prefill together in at most this many padded tokens; at least 1."""
    count = unique = 1
    while count < len(prompts):
        new = prompts[count - 1] != prompts[count]
        if new and (unique + 1) * (len(prompts[count]) + 2) > tokens:
            break
        count, unique = count + 1, unique + new
    return count
