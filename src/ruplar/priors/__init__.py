"""Span → sparse distribution, one file a rule."""
