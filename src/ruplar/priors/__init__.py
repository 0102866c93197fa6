"""Priors: span → sparse distribution over the vocabulary; one file per prior."""
