"""The language model, and nothing about any method."""
