"""Seed and count → varied, solvable, multi-step word problems with `<<…>>` chains: the built-in source of training data.

A family of problems is one file in `families/`: a first line that describes it, `STEPS` (fewest and most), and
`build(story)`. `HELD_OUT = True` keeps it out of the embedded model's training, `GROUP = "short"` or `"situations"` puts it among
those (`word-problems:short`) and out of the default ones. Nothing else is to be edited.
"""

from ruplar.problems.word_problems.check import verify, written
from ruplar.problems.word_problems.make import (
    DRILLS,
    FAMILIES,
    HELD_OUT,
    SHORT,
    SITUATIONS,
    STEP_WEIGHTS,
    TRAIN_FAMILIES,
    Family,
    Split,
    generate,
    names,
    part_of,
    write_jsonl,
)
from ruplar.problems.word_problems.story import Redraw, Story

__all__ = [
    "DRILLS",
    "FAMILIES",
    "HELD_OUT",
    "SHORT",
    "SITUATIONS",
    "STEP_WEIGHTS",
    "TRAIN_FAMILIES",
    "Family",
    "Redraw",
    "Split",
    "Story",
    "generate",
    "names",
    "part_of",
    "verify",
    "write_jsonl",
    "written",
]
