"""Seed and count → bare arithmetic in plain words and signs, one or two steps: what teaches number tokens to compute at once.

Operators and sizes are those of the steps of GSM8K's training chains (`sizes.py` has the figures).
"""

from ruplar.problems.drills.make import STEP_WEIGHTS, generate

__all__ = ["STEP_WEIGHTS", "generate"]
