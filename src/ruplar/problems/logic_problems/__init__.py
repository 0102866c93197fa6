"""Seed and count → deductions over small graphs of made-up concepts, as in ProsQA: what the logic domain is learnt from.

A problem tells facts in any order (`Every terpus is a brimpus.`), most of which lead nowhere, and asks which of two concepts somebody
is; only one follows.
"""

from ruplar.problems.logic_problems.make import CONCEPTS, DOMAIN, NAMES, conclusions, generate, verify
from ruplar.problems.logic_problems.shape import Shape, fingerprint

__all__ = ["CONCEPTS", "DOMAIN", "NAMES", "Shape", "conclusions", "fingerprint", "generate", "verify"]

REVISION = 2
"""Of the problems a seed stands for; to be raised when they change. 2: both options are drawn alike, and so are both sides."""
