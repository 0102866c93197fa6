"""Span rules: step → the spans that become one latent each; one file per rule."""
