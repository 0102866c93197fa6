"""What ships with the package: the tiny backbone's tokenizer and how it is made."""

from pathlib import Path

TOKENIZER = Path(__file__).parent / "tokenizer"
"""Folder that `transformers.AutoTokenizer.from_pretrained` loads."""
