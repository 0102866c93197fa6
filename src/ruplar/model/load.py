"""Name, or a causal LM in memory → `Backbone`: its weights, number tokens, marker tokens and a new adapter.

Weights are read from safetensors only and no remote code is run.
"""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from ruplar.errors import UserError
from ruplar.model.backbone import Backbone
from ruplar.model.embeddings import add_mean_rows, add_number_rows, copy_layers
from ruplar.model.fetch import KNOWN, fetched
from ruplar.model.lora import add_lora
from ruplar.model.number_tokens import GROUPS, number_ids, with_number_tokens
from ruplar.model.prompt import prompt_format_of
from ruplar.model.settings import BackboneConfig, PromptConfig
from ruplar.model.tokenizers import DOMAINS, load_tokenizer

log = logging.getLogger(__name__)

EMBEDDED = Path(__file__).parents[1] / "embedded" / "backbone"
_TRAINED_BY = {"embedded-dates": "dates-cot", "embedded-logic": "logic-facts`, then `ruplar train logic-cot"}
"""Recipes that train the backbone of a domain."""


def load_backbone(
    config: BackboneConfig,
    prompt: PromptConfig,
    device: str = "cpu",
    adapt: bool = True,
    base: tuple[Any, Any] | None = None,
) -> Backbone:
    """Load a backbone by name, or make one of a causal LM and tokenizer in memory (`base`), changed in place.

    `adapt` adds a new LoRA if the config has one; False if a trained adapter will be loaded instead.
    """
    model, tokenizer = base or (load_causal_lm(config, device), load_tokenizer(config.name))
    numbers: Sequence[int] = ()
    if config.number_tokens:
        tokenizer, numbers = add_number_tokens(model, tokenizer)
    backbone = attach_markers(model, tokenizer, prompt, numbers)
    _check_head(backbone)
    if adapt and config.lora is not None:
        add_lora(backbone, config.lora)
    backbone.model.to(device)
    return backbone


def attach_markers(model: Any, tokenizer: Any, prompt: PromptConfig, numbers: Sequence[int] = ()) -> Backbone:
    """A causal LM and its tokenizer → `Backbone`, with the marker tokens found or added."""
    form = prompt_format_of(tokenizer, prompt)
    if form.added:
        add_mean_rows(model, len(tokenizer), len(form.added))
    return Backbone(model, tokenizer, form.prompt, form.markers, form.pad_id, (*form.added, *numbers))


def add_number_tokens(model: Any, tokenizer: Any) -> tuple[Any, list[int]]:
    """Add number tokens and their rows → the extended tokenizer, and the ids of all number tokens."""
    before = tokenizer.get_vocab()
    tokenizer = with_number_tokens(tokenizer)
    ids = number_ids(tokenizer)
    fresh = {group: i for group, i in zip(GROUPS, ids, strict=True) if group not in before}
    add_number_rows(model, fresh, [tokenizer.convert_tokens_to_ids(str(digit)) for digit in range(10)])
    return tokenizer, ids


def load_causal_lm(config: BackboneConfig, device: str = "cpu") -> Any:
    """Load the plain causal LM of a backbone section; `dtype: auto` is float32 on a CPU and bfloat16 elsewhere."""
    auto = torch.float32 if device.startswith("cpu") else torch.bfloat16
    return _causal_lm(config, auto if config.dtype == "auto" else getattr(torch, config.dtype))


def _causal_lm(config: BackboneConfig, dtype: torch.dtype) -> Any:
    from transformers import AutoConfig, AutoModelForCausalLM
    from transformers.utils import logging as bars

    if config.name in DOMAINS and config.weights == "pretrained":
        raise UserError(
            f"backbone.name: '{config.name}' is a tokenizer and a model config without weights. Train its backbone with "
            f"weights: random or borrowed (`ruplar train {_TRAINED_BY[config.name]}`) and start from that run (init)."
        )
    if config.name not in DOMAINS and config.weights == "borrowed":
        raise UserError(
            f"backbone.weights: borrowed works for {' and '.join(DOMAINS)} only, with the embedded model's layers; "
            f"'{config.name}' has its own weights."
        )
    name = str(_folder(config.name))
    try:
        if config.weights != "pretrained":
            shape = AutoConfig.from_pretrained(name, trust_remote_code=False)
            model = AutoModelForCausalLM.from_config(shape, dtype=dtype, attn_implementation=config.attention)
            if config.weights == "borrowed":
                donor = _causal_lm(BackboneConfig(attention=config.attention), dtype)
                rows = copy_layers(model, load_tokenizer(config.name), donor, load_tokenizer("embedded"))
                log.info("copied the embedded model's layers and the rows of %d shared tokens", rows)
            return model
        _check_shapes(Path(name))
        shown = bars.is_progress_bar_enabled()
        bars.disable_progress_bar()  # a library must not print
        try:
            return AutoModelForCausalLM.from_pretrained(
                name, dtype=dtype, attn_implementation=config.attention, use_safetensors=True, trust_remote_code=False
            )
        finally:
            if shown:
                bars.enable_progress_bar()
    except (UserError, torch.cuda.OutOfMemoryError):
        raise
    except Exception as error:  # transformers, safetensors and the Hub raise kinds of their own
        reason = str(error).split("\n")[0].rstrip(".")
        fix = "Give a folder with config.json and *.safetensors, a Hub name, or a name of `ruplar list backbones`; a trained model belongs in backbone.init."
        if config.name in KNOWN:
            fix = f"Run `ruplar fetch {config.name}`, which rebuilds {name} if it is damaged."
        raise UserError(f"backbone.name: cannot load '{config.name}': {reason}. {fix}") from error


def _check_shapes(folder: Path) -> None:
    """Compare the config of a local model with its weights, before memory of the config's size is allocated."""
    from safetensors import safe_open
    from transformers import AutoConfig, AutoModelForCausalLM

    files = sorted(folder.glob("*.safetensors")) if folder.is_dir() else []
    if not files:
        return
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder, trust_remote_code=False))
    expected = {name: list(tensor.shape) for name, tensor in model.state_dict().items()}
    for file in files:
        with safe_open(file, "pt") as weights:
            for name in expected.keys() & set(weights.keys()):
                found = weights.get_slice(name).get_shape()
                if found != expected[name]:
                    raise UserError(
                        f"cannot load '{folder}': {name} is {found} in {file.name} and {expected[name]} by config.json. "
                        "Copy the folder again."
                    )


def _folder(name: str) -> str | Path:
    """Return the model folder of a packaged or fetched backbone; any other name unchanged."""
    if name == "embedded":
        return EMBEDDED
    return fetched(name) if name in KNOWN else DOMAINS.get(name, name)


def _check_head(backbone: Backbone) -> None:
    """Refuse a model whose logits are not head(last hidden state): ours would differ from its own."""
    model = backbone.plain_model
    if backbone.head is None:
        raise UserError("the model has no output embedding (get_output_embeddings() is None); use a causal LM.")
    training = model.training
    model.eval()
    ids = torch.arange(min(4, backbone.embedding_weight.shape[0]), device=backbone.device)[None]
    with torch.no_grad():
        theirs = model(input_ids=ids).logits.float()
        positions = torch.arange(ids.shape[1], device=ids.device)[None]
        ours = backbone.logits(backbone.trunk(backbone.embedding(ids), None, positions)[0])
    model.train(training)
    if not theirs.isfinite().all():
        raise UserError("the model's logits are NaN or infinite: its weights are damaged. Copy or download it again.")
    if not torch.allclose(ours, theirs, rtol=1e-2, atol=1e-2):
        raise UserError(
            f"{type(model).__name__} changes its logits after the head (scaling or soft-capping), which the losses here "
            f"do not reproduce (difference {float((ours - theirs).abs().max()):.3g})."
        )
