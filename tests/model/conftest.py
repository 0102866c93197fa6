"""Fixtures of the tests of backbones."""

from tiny_gguf import tiny  # noqa: F401
