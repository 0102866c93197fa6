"""The files of the embedded backbones and models; benchmarks/make_tokenizer.py builds their tokenizers."""

from pathlib import Path

TOKENIZER = Path(__file__).parent / "tokenizer"
"""Folder that `transformers.AutoTokenizer.from_pretrained` loads."""
