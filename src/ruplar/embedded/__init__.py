"""The embedded backbone's files, and the scripts that build its tokenizer."""

from pathlib import Path

TOKENIZER = Path(__file__).parent / "tokenizer"
"""Folder that `transformers.AutoTokenizer.from_pretrained` loads."""
