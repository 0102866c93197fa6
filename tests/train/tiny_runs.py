"""A backbone of 40,000 weights with the packaged tokenizer, and recipes over it; for tests and the scripts they start."""

from pathlib import Path

from ruplar.config import RunConfig, from_dict

SHAPE = {
    "model_type": "llama",
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "max_position_embeddings": 512,
    "tie_word_embeddings": True,
    "initializer_range": 0.1,
}
LORA = {"rank": 4, "alpha": 8, "dropout": 0.1}


def write_backbone(folder: Path) -> Path:
    """A model folder as Hugging Face writes it, with random weights."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    from ruplar.model.tokenizers import load_tokenizer

    tokenizer = load_tokenizer("embedded")
    tokenizer.save_pretrained(folder)
    ids = {
        "vocab_size": len(tokenizer),
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
    }
    torch.manual_seed(0)
    AutoModelForCausalLM.from_config(AutoConfig.for_model(**SHAPE, **ids)).save_pretrained(folder)
    return folder


def make_config(
    backbone: Path, *, method="ruplar", prior="mixture", lora=LORA, init=None, valid=False, rows=64, **training
) -> RunConfig:
    """A recipe over 64 word problems; `training` are TrainingArguments."""
    defaults = {"per_device_train_batch_size": 8, "learning_rate": 3e-3, "max_steps": 8, "logging_steps": 2}
    return from_dict(
        {
            "name": "tiny",
            "seed": 5,
            "backbone": {"name": str(backbone), "dtype": "float32", "lora": lora, "init": init},
            "prompt": {"template": "plain", "instruction": ""},
            "data": {
                "train": {"source": "word-problems", "count": rows, "seed": 1, "steps": [1, 3]},
                "valid": {"source": "word-problems", "count": 6, "seed": 2, "steps": [1, 3]} if valid else None,
            },
            "prior": {"name": prior},
            "method": method if isinstance(method, dict) else {"name": method},
            "training": {"save_strategy": "no", **defaults, **training},
            "validation": {"questions": 4, "batch_size": 4},
        }
    )
