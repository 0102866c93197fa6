"""How latents are trained and produced, one file a method."""
