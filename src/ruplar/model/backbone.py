"""Name → `Backbone`: any Hugging Face causal LM with marker tokens, a prompt builder and, optionally, LoRA.

Everything depends on what a model offers (`get_input_embeddings`, `get_output_embeddings`, the chat template), never on its
name. Weights are read from safetensors only and no remote code is run.
"""

import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial, wraps
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ruplar.errors import UserError
from ruplar.model.embeddings import add_mean_rows, add_number_rows, copy_layers
from ruplar.model.fetch import KNOWN, fetched
from ruplar.model.lora import add_lora
from ruplar.model.number_tokens import GROUPS, number_ids, with_number_tokens
from ruplar.model.prompt import PromptBuilder, prompt_format_of
from ruplar.model.settings import BackboneConfig, PromptConfig
from ruplar.model.tokenizers import DOMAINS, load_tokenizer
from ruplar.model.trained_rows import padded_logits, trained_rows
from ruplar.types import HasMarkers, Markers

log = logging.getLogger(__name__)

EMBEDDED = Path(__file__).parents[1] / "embedded" / "backbone"
ROTARY = "apply_rotary_pos_emb"
"""Name under which the architectures of transformers have their rotary embedding."""
_PLAIN_NORMS = ("LlamaRMSNorm", "Qwen2RMSNorm", "Qwen3RMSNorm", "MistralRMSNorm")
"""Classes whose norm is weight · x / rms(x)."""
_TRAINED_BY = {"embedded-dates": "dates-cot", "embedded-logic": "logic-facts`, then `ruplar train logic-cot"}
"""Recipes that train the backbone of a domain."""


@dataclass
class Backbone(HasMarkers):
    """A language model with its tokenizer, its marker tokens and the one way to build a prompt."""

    model: Any  # the causal LM, wrapped by PEFT when it has an adapter
    tokenizer: Any
    prompt: PromptBuilder  # question → ids, for training and inference
    markers: Markers  # ids of `<think>`, `</think>` and the end of the answer
    pad_id: int  # padding id; never attended to
    # ids of tokens whose rows are trained: markers the tokenizer did not have, and number tokens
    added: tuple[int, ...] = ()
    compiled: bool = False
    varlen: bool = False  # packed rows use variable-length attention (`model.varlen`) instead of a mask
    replay: Any = None  # replays training passes as CUDA graphs (`cuda_graphs.Replay`); None: passes run normally
    # counts training steps for weights cached within a step (`fold_lora.Steps`); None: nothing is cached
    steps: Any = None

    def set_model(self, model: Any) -> None:
        """Replace the model, for example by one with an adapter."""
        self.model = model
        for cached in ("plain_model", "adapted"):
            self.__dict__.pop(cached, None)

    def begin_step(self) -> None:
        """Start a training step: discard what was cached for the previous one."""
        if self.replay is not None:
            self.replay.begin()
        if self.steps is not None:
            self.steps.number += 1

    @property
    def embedding(self) -> nn.Module:
        """Return the input embedding, adapters included."""
        return self.model.get_input_embeddings()

    @property
    def head(self) -> nn.Module:
        """Return the output projection, adapters included."""
        return self.model.get_output_embeddings()

    @cached_property
    def plain_model(self) -> Any:
        """Return the causal LM without PEFT's wrapper; its layers still contain the adapter."""
        return self.model.get_base_model() if hasattr(self.model, "peft_config") else self.model

    @cached_property
    def adapted(self) -> Any:
        """Return a layer with an adapter, which knows whether it is switched on; None without an adapter."""
        return next((module for module in self.model.modules() if getattr(module, "lora_A", None)), None)

    @property
    def device(self) -> torch.device:
        return next(self.embedding.parameters()).device  # `weight` is recomputed on access where rows are trained

    @property
    def embedding_weight(self) -> Tensor:
        """Return the base matrix [V, D] of the input embedding."""
        weight = getattr(self.embedding, "weight", None)
        return weight if weight is not None else next(self.embedding.parameters())

    def trunk(
        self,
        embeds: Tensor,
        mask: Tensor | None,
        positions: Tensor,
        cache: Any = None,
        all_layers: bool = False,
        **segments: Any,
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Embeddings [B, S, D] → the input of the head [B, S, D]; and with `all_layers` every layer's output, the embedding's first.

        `mask` [B, past + S] is 1 where a position may be attended to; None without padding. `cache` is extended in
        place. `segments` separate sequences in a single row (`varlen.segment_arguments`).
        """
        if self.replay is not None and cache is None and not segments:
            found = self.replay(embeds, mask, positions, all_layers)
            if found is not None:
                return found
        if self.compiled and torch.is_grad_enabled() and not embeds.requires_grad:
            embeds = embeds.detach().requires_grad_()  # otherwise the first layer is compiled separately
        out = self.plain_model.base_model(
            inputs_embeds=embeds,
            attention_mask=mask,
            position_ids=positions,
            past_key_values=cache,
            use_cache=cache is not None,
            output_hidden_states=all_layers,
            **segments,
        )
        return out.last_hidden_state, tuple(out.hidden_states) if all_layers else ()

    def project(self, hidden: Tensor) -> Tensor:
        """Hidden states [N, D] → logits [N, V or more] in the head's dtype; call it only on the positions that need them.

        In training there may be padding columns after the vocabulary's; they have no probability.
        """
        hidden = hidden.to(self.head_dtype)
        rows = trained_rows(self.head) if torch.is_grad_enabled() else None
        return self.head(hidden) if rows is None else padded_logits(rows, hidden)

    def logits(self, hidden: Tensor) -> Tensor:
        """Hidden states [..., D] → float32 logits [..., V]."""
        return self.project(hidden)[..., : len(self.embedding_weight)].float()

    @property
    def head_dtype(self) -> torch.dtype:
        return next(self.head.parameters()).dtype

    def compile_layers(self) -> None:
        """Compile the decoder layers for training, once for all layers and shapes."""
        count = self.plain_model.config.num_hidden_layers
        stacks = (m for m in self.plain_model.modules() if isinstance(m, nn.ModuleList) and len(m) == count)
        stack = next(stacks, None)
        if stack is None:
            raise UserError(
                f"speed.compile: {type(self.plain_model).__name__} has no list of layers to compile. Set speed.compile: false."
            )
        for layer in stack:
            layer.compile(dynamic=True)
        self.compiled = True

    def use_liger_kernels(self, options: Mapping[str, bool] | None = None) -> None:
        """Replace this model's norms, rotary embeddings and gated MLPs by Liger's fused kernels; the losses stay ours."""
        try:
            from liger_kernel.transformers.monkey_patch import MODEL_TYPE_TO_APPLY_LIGER_FN as KINDS
            from liger_kernel.transformers.monkey_patch import _apply_liger_kernel_to_instance as apply
        except ImportError as error:
            raise UserError(
                "training.use_liger_kernel: liger-kernel is not installed. Run `pip install 'ruplar[liger]'`."
            ) from error
        kind = self.plain_model.config.model_type
        if self.device.type != "cuda" or kind not in KINDS:
            reason = f"has no kernels for '{kind}' models" if self.device.type == "cuda" else "needs an NVIDIA GPU"
            raise UserError(f"training.use_liger_kernel: liger-kernel {reason}. Set it to false.")
        code = sys.modules[type(self.plain_model).__module__]
        plain = dict(vars(code))
        chosen = {"cross_entropy": False, "fused_linear_cross_entropy": False, **(options or {})}
        if "rms_norm" not in chosen:  # Liger's backward pass also computes the weight's gradient, which takes longer
            chosen["rms_norm"] = not use_native_norms(self.plain_model)
        apply(model=self.plain_model, **chosen)
        # Liger also changes the architecture's module, for models that are yet to be made; those may be on a CPU
        changed = {name: value for name, value in vars(code).items() if plain.get(name) is not value}
        vars(code).update({name: plain[name] for name in changed})
        if ROTARY in changed:  # looked up there at every call
            setattr(code, ROTARY, _by_device(changed[ROTARY], plain[ROTARY]))


def use_native_norms(model: nn.Module) -> bool:
    """Compute the RMS norms of a Llama or Qwen with PyTorch's own kernel, one each way; False for other architectures."""
    norms = [module for module in model.modules() if type(module).__name__ in _PLAIN_NORMS]
    for norm in norms:
        norm.forward = partial(_rms_norm, norm)
    return bool(norms)


def _rms_norm(norm: Any, hidden: Tensor) -> Tensor:
    with torch.autocast(hidden.device.type, enabled=False):  # autocast would compute and return float32
        return F.rms_norm(hidden, norm.weight.shape, norm.weight.to(hidden.dtype), norm.variance_epsilon)


def _by_device(on_gpu: Callable[..., Any], elsewhere: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that chooses by the device of its first argument."""

    @wraps(elsewhere)
    def chosen(first: Tensor, *others: Any, **named: Any) -> Any:
        return (on_gpu if first.is_cuda else elsewhere)(first, *others, **named)

    return chosen


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
    return _load_model(config, auto if config.dtype == "auto" else getattr(torch, config.dtype))


def _load_model(config: BackboneConfig, dtype: torch.dtype) -> Any:
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
                donor = _load_model(BackboneConfig(attention=config.attention), dtype)
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
        fix = "Give a folder with config.json and *.safetensors, a reachable Hub name, or a name of `ruplar list backbones`."
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
