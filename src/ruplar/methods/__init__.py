"""How latents are trained and produced: one file per method."""
