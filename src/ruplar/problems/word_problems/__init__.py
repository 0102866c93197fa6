"""Seed and count → varied, solvable, multi-step word problems with `<<…>>` chains: the built-in source of training data.

A family of problems is one YAML file in `families/`: to add a family, add a file. `families.py` documents its fields.
"""

from ruplar.problems.word_problems.families import DRILLS, FAMILIES, HELD_OUT, SHORT, SITUATIONS, TRAIN_FAMILIES
from ruplar.problems.word_problems.generate import generate, part_of, write_jsonl

__all__ = [
    "DRILLS", "FAMILIES", "HELD_OUT", "SHORT", "SITUATIONS", "TRAIN_FAMILIES", "generate", "part_of", "write_jsonl",
]  # fmt: skip
