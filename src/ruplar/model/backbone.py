"""`Backbone`: any Hugging Face causal LM with marker tokens, a prompt builder and, optionally, LoRA.

Everything depends on what a model offers (`get_input_embeddings`, `get_output_embeddings`, the chat template), never on its
name.
"""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial, wraps
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ruplar.errors import UserError, install_extra
from ruplar.model.prompt import PromptBuilder
from ruplar.model.trained_rows import padded_logits, trained_rows
from ruplar.types import HasMarkers, Markers

ROTARY = "apply_rotary_pos_emb"
"""Name under which the architectures of transformers have their rotary embedding."""
_PLAIN_NORMS = ("LlamaRMSNorm", "Qwen2RMSNorm", "Qwen3RMSNorm", "MistralRMSNorm")
"""Classes whose norm is weight · x / rms(x)."""


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
            raise UserError(f"training.use_liger_kernel needs liger-kernel. {install_extra('liger')}") from error
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
