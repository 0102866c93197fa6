"""Seed and count → problems about dates with `<<…>>` chains that re-execute: what the dates domain is learnt from.

A problem is a story that says which day it is today, in one of the ways of `openings.py`, and a question for a day near it.
"""

from ruplar.problems.date_problems.make import DOMAIN, OPENINGS, generate, part_of_scenario, verify

__all__ = ["DOMAIN", "OPENINGS", "generate", "part_of_scenario", "verify"]

REVISION = 3
"""Of the problems a seed stands for; to be raised when they change. 2: none tells a scenario of Date Understanding. 3: a scenario has
one part however it is written."""
