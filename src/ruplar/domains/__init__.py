"""Domains: what a step, its symbols, its result and a correct answer are; one file per domain."""
