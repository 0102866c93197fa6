"""Inference: latents and answers, in a reference engine and a fast engine."""
