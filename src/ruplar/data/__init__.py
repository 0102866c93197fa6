"""Datasets: reading, checking, augmenting, converting, encoding and batching examples."""
