"""The command line: the only package that prints. Devices and settings are picked here and passed on."""

from ruplar.cli.verbs import app, main

__all__ = ["app", "main"]
