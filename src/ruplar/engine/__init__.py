"""Question → latents → answer."""
