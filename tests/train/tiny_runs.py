"""A backbone of 40,000 weights with the packaged tokenizer, and recipes over it; for tests and the scripts they start."""

from pathlib import Path

import yaml

from ruplar.config import RunConfig, from_dict

TABLES = Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8")
SHAPE = yaml.safe_load(TABLES)["shape"]
LORA = {"rank": 4, "alpha": 8, "dropout": 0.1}


def write_backbone(folder: Path) -> Path:
    """A model folder as Hugging Face writes it, with random weights."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    from ruplar.model.tokenizers import load_tokenizer

    tokenizer = load_tokenizer("embedded")
    tokenizer.save_pretrained(folder)
    ids = {name: getattr(tokenizer, name) for name in ("eos_token_id", "pad_token_id")} | {
        "vocab_size": len(tokenizer)
    }
    torch.manual_seed(0)
    AutoModelForCausalLM.from_config(AutoConfig.for_model(**SHAPE, **ids)).save_pretrained(folder)
    return folder


def make_config(
    backbone: Path, *, method="ruplar", prior="mixture", lora=LORA, init=None, valid=False, rows=64, **training
) -> RunConfig:
    """A recipe over 64 word problems; `training` are TrainingArguments."""
    made = yaml.safe_load(TABLES)["recipe"]
    made["backbone"] |= {"name": str(backbone), "lora": lora, "init": init}
    made["data"]["train"]["count"] = rows
    made["data"]["valid"] = made["data"]["valid"] if valid else None
    made |= {"prior": {"name": prior}, "method": method if isinstance(method, dict) else {"name": method}}
    return from_dict(made | {"training": made["training"] | training})
