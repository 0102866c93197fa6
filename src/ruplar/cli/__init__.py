"""The command line: the only package that prints, picks a device and reads the environment (except `ruplar.cache`)."""

from ruplar.cli.verbs import app, main

__all__ = ["app", "main"]
