"""Words typed → one verb each: the only package that prints, picks a device or reads the environment.

Where fetched models are kept is read in `backbone.known` alone, for programs too.
"""

from ruplar.cli.verbs import app, main

__all__ = ["app", "main"]
