"""Seed and count → varied, solvable, multi-step word problems with `<<…>>` chains: the built-in source of training data.

A family of problems is one YAML file in `families/`: to add a family, add a file. `families.py` documents its fields.
"""

from ruplar.problems.word_problems.check import verify, written
from ruplar.problems.word_problems.families import (
    DRILLS,
    FAMILIES,
    HELD_OUT,
    SHORT,
    SITUATIONS,
    TRAIN_FAMILIES,
    Family,
    names,
)
from ruplar.problems.word_problems.generate import STEP_WEIGHTS, Split, generate, part_of, write_jsonl
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
