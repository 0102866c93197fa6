"""Domains: what a step, its symbols, its result and a right answer are; one file per domain."""
