"""Convert an exported model with number tokens, or an embedded one, to GGUF for llama.cpp.

    ruplar export models/smollm2-135m-cot exported
    python examples/gguf/convert.py LLAMA_CPP exported --outtype f32 --outfile cot.gguf

LLAMA_CPP is a clone of llama.cpp. Its converter identifies a tokenizer by a hash and rejects ours. This script sets the
pre-tokenizer `minicpm5`, which splits numbers into groups of three digits as ours does. Other arguments go to the converter.
"""

import runpy
import sys
from pathlib import Path

folder = Path(sys.argv.pop(1)).resolve()
sys.path[:0] = [str(folder), str(folder / "gguf-py")]

from conversion.base import TextModel  # noqa: E402

TextModel.get_vocab_base_pre = lambda model, tokenizer: "minicpm5"
sys.argv[0] = str(folder / "convert_hf_to_gguf.py")
runpy.run_path(sys.argv[0], run_name="__main__")
