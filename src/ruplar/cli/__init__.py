"""Words typed → one verb each: the only package that prints, reads the environment or picks a device."""

from ruplar.cli.verbs import app, main

__all__ = ["app", "main"]
