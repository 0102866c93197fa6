"""Answers → scores, intervals, run.json."""
