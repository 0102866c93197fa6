"""Name → `Backbone`: any Hugging Face causal LM with think markers, a prompt builder and, on request, LoRA.

Everything is decided by capability (`get_input_embeddings`, `get_output_embeddings`, the chat template), never by a
model's name. Weights are read from safetensors only and no remote code is run.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ruplar.errors import UserError
from ruplar.model.embedding_rows import add_mean_rows, add_number_rows
from ruplar.model.lora import add_lora
from ruplar.model.number_tokens import GROUPS, number_ids, with_number_tokens
from ruplar.model.prompt import PromptBuilder
from ruplar.model.prompt_format import prompt_format_of
from ruplar.model.registry import KNOWN, fetched
from ruplar.model.settings import BackboneConfig, PromptConfig
from ruplar.model.tokenizers import DOMAINS, load_tokenizer
from ruplar.model.transplant import borrow

log = logging.getLogger(__name__)

EMBEDDED = Path(__file__).parents[1] / "embedded" / "backbone"
_TRAINED_BY = {"embedded-dates": "dates-cot", "embedded-logic": "logic-facts`, then `ruplar train logic-cot"}
"""Recipes that make the weights of a domain's backbone."""


@dataclass
class Backbone:
    """A language model ready to think: the model, its tokenizer, its markers, and the one way to build a prompt.

    Attributes:
        model: The causal LM, wrapped by PEFT when it has an adapter.
        tokenizer: Its tokenizer, markers included.
        prompt: Question → ids, for training and thinking alike.
        think_id: Id of `<think>`.
        end_think_id: Id of `</think>`, the halt token.
        eos_id: Id that ends an answer.
        pad_id: Id that fills empty places; never attended to.
        added: Ids of tokens whose rows are trained: markers this backbone did not have, and number tokens.
        compiled: Whether its layers are.
        replay: What replays training passes as captured graphs (`graphed.Replay`); None where they are run one by one.
        steps: Counts training steps for what is kept within one (`fold.Steps`); None where nothing is.
    """

    model: Any
    tokenizer: Any
    prompt: PromptBuilder
    think_id: int
    end_think_id: int
    eos_id: int
    pad_id: int
    added: tuple[int, ...] = ()
    compiled: bool = False
    replay: Any = None
    steps: Any = None

    def begin_step(self) -> None:
        """A training step begins: what was kept for the last one is not to be used again."""
        if self.replay is not None:
            self.replay.begin()
        if self.steps is not None:
            self.steps.number += 1

    @property
    def embedding(self) -> nn.Module:
        """The input embedding, adapters included."""
        return self.model.get_input_embeddings()

    @property
    def head(self) -> nn.Module:
        """The output projection, adapters included."""
        return self.model.get_output_embeddings()

    @cached_property
    def plain_model(self) -> Any:
        """The causal LM without PEFT's wrapper; its layers still carry the adapter."""
        return self.model.get_base_model() if hasattr(self.model, "peft_config") else self.model

    @cached_property
    def adapted(self) -> Any:
        """A layer that carries the adapter, which tells whether it is switched on; None without one."""
        return next((module for module in self.model.modules() if getattr(module, "lora_A", None)), None)

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(
            self.embedding.parameters()
        ).device  # the weight itself is put together anew where rows are trained

    @property
    def embedding_weight(self) -> Tensor:
        """The base matrix [V, D] of the input embedding."""
        weight = getattr(self.embedding, "weight", None)
        return weight if weight is not None else next(self.embedding.parameters())

    def trunk(
        self, embeds: Tensor, mask: Tensor | None, positions: Tensor, cache: Any = None, all_layers: bool = False
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Embeddings → hidden states, through everything but the head.

        Args:
            embeds: [B, S, D] what each position reads.
            mask: [B, past + S], 1 where something may be attended to; None when nothing is padded.
            positions: [B, S] position ids.
            cache: A Hugging Face cache, extended in place; None in training.
            all_layers: Also return every layer's hidden states, the embedding's first.

        Returns:
            [B, S, D], the head's own input; and the layers, () unless asked for.
        """
        if self.replay is not None and cache is None:
            found = self.replay(embeds, mask, positions, all_layers)
            if found is not None:
                return found
        if self.compiled and torch.is_grad_enabled() and not embeds.requires_grad:
            embeds = embeds.detach().requires_grad_()  # else the first layer is compiled apart from all others
        out = self.plain_model.base_model(
            inputs_embeds=embeds,
            attention_mask=mask,
            position_ids=positions,
            past_key_values=cache,
            use_cache=cache is not None,
            output_hidden_states=all_layers,
        )
        return out.last_hidden_state, tuple(out.hidden_states) if all_layers else ()

    def logits(self, hidden: Tensor) -> Tensor:
        """Hidden states [..., D] → float32 logits [..., V]: call it on the positions that need them."""
        return self.head(hidden.to(self.head_dtype)).float()

    @property
    def head_dtype(self) -> torch.dtype:
        """The dtype the head computes in."""
        return next(self.head.parameters()).dtype

    def compile_layers(self, keep: float = 1.0) -> None:
        """Compile each decoder layer, once for all of them and for every shape; for training.

        Args:
            keep: Share of the memory for activations that the compiler may use; what does not fit is computed again in the
                backward pass, the cheapest first.
        """
        import torch._functorch.config

        torch._functorch.config.activation_memory_budget = keep
        count = self.plain_model.config.num_hidden_layers
        stacks = (m for m in self.plain_model.modules() if isinstance(m, nn.ModuleList) and len(m) == count)
        stack = next(stacks, None)
        if stack is None:
            raise UserError(
                f"speed.compile: {type(self.plain_model).__name__} keeps its layers in no list; set it to false."
            )
        for layer in stack:
            layer.compile(dynamic=True)
        self.compiled = True

    def encode_answer(self, answer: str) -> list[int]:
        """The marked answer in the recipe's format, end token included."""
        return [*self.prompt.answer(answer), self.eos_id]


def open_backbone(config: BackboneConfig, prompt: PromptConfig, device: str = "cpu", adapt: bool = True) -> Backbone:
    """Load a backbone.

    Args:
        config: Which model, in which precision, with which adapter.
        prompt: How questions are put to it.
        device: Where it goes.
        adapt: Add a fresh LoRA when the config has one; False when a trained adapter will be loaded instead.

    Raises:
        UserError: The model cannot be found or read, or its logits are not its head applied to its last hidden state.
    """
    tokenizer = load_tokenizer(config.name)
    model = _load_model(config, _dtype(config.dtype, device))
    numbers: Sequence[int] = ()
    if config.number_tokens:
        tokenizer, numbers = add_number_tokens(model, tokenizer)
    backbone = attach_markers(model, tokenizer, prompt, numbers)
    _check_head(backbone)
    if adapt and config.lora is not None:
        add_lora(backbone, config.lora)
    model_or_peft = backbone.model
    model_or_peft.to(device)
    return backbone


def attach_markers(model: Any, tokenizer: Any, prompt: PromptConfig, numbers: Sequence[int] = ()) -> Backbone:
    """A causal LM and its tokenizer → `Backbone`: markers found or added, pad and end ids settled.

    Args:
        model: The causal LM.
        tokenizer: Its tokenizer; markers are added to it.
        prompt: How questions are put.
        numbers: Ids of number tokens whose rows are to be trained.
    """
    words = prompt_format_of(tokenizer, prompt)
    if words.added:
        add_mean_rows(model, len(tokenizer), len(words.added))
    ids = (words.think_id, words.end_think_id, words.eos_id, words.pad_id)
    return Backbone(model, tokenizer, words.prompt, *ids, (*words.added, *numbers))


def add_number_tokens(model: Any, tokenizer: Any) -> tuple[Any, list[int]]:
    """Give a model rows for the number tokens its tokenizer lacks.

    Returns:
        The extended tokenizer, and the ids of all number tokens.

    Raises:
        UserError: The tokenizer has them already, or cannot be extended.
    """
    before = tokenizer.get_vocab()
    tokenizer = with_number_tokens(tokenizer)
    ids = number_ids(tokenizer)
    fresh = {group: i for group, i in zip(GROUPS, ids, strict=True) if group not in before}
    add_number_rows(model, fresh, [tokenizer.convert_tokens_to_ids(str(digit)) for digit in range(10)])
    return tokenizer, ids


def _dtype(name: str, device: str) -> torch.dtype:
    if name == "auto":
        return torch.float32 if device.startswith("cpu") else torch.bfloat16
    return getattr(torch, name)


def _load_model(config: BackboneConfig, dtype: torch.dtype) -> Any:
    from safetensors import SafetensorError
    from transformers import AutoConfig, AutoModelForCausalLM
    from transformers.utils import logging as bars

    if config.name in DOMAINS and config.weights == "pretrained":
        raise UserError(
            f"backbone.name: '{config.name}' is a tokenizer and a shape without weights. Train its backbone from weights: "
            f"random or borrowed (`ruplar train {_TRAINED_BY[config.name]}`) and start from that run (init)."
        )
    if config.name not in DOMAINS and config.weights == "borrowed":
        raise UserError(
            f"backbone.weights: only {' and '.join(DOMAINS)} borrow layers, from the embedded model; '{config.name}' has its own."
        )
    name = str(_folder(config.name))
    try:
        if config.weights != "pretrained":
            shape = AutoConfig.from_pretrained(name, trust_remote_code=False)
            model = AutoModelForCausalLM.from_config(shape, dtype=dtype, attn_implementation=config.attention)
            if config.weights == "borrowed":
                lender = _load_model(BackboneConfig(attention=config.attention), dtype)
                rows = borrow(model, load_tokenizer(config.name), lender, load_tokenizer("embedded"))
                log.info("the embedded model's layers, and the rows of %d tokens that both know", rows)
            return model
        shown = bars.is_progress_bar_enabled()
        bars.disable_progress_bar()  # a library does not draw on its user's terminal
        try:
            return AutoModelForCausalLM.from_pretrained(
                name, dtype=dtype, attn_implementation=config.attention, use_safetensors=True, trust_remote_code=False
            )
        finally:
            if shown:
                bars.enable_progress_bar()
    except (OSError, ValueError, SafetensorError) as error:
        reason = str(error).split("\n")[0].rstrip(".")
        out = (
            "Give a folder with config.json and *.safetensors, a Hub name that this machine can reach, or a name of `ruplar "
            "list backbones`."
        )
        if config.name in KNOWN:
            out = f"Run `ruplar fetch {config.name}`, which makes {name} anew where it is damaged."
        raise UserError(f"backbone.name: cannot load '{config.name}': {reason}. {out}") from error


def _folder(name: str) -> str | Path:
    """Where a name with a folder of its own has its model; any other name as it is."""
    if name == "embedded":
        return EMBEDDED
    return fetched(name) if name in KNOWN else DOMAINS.get(name, name)


def _check_head(backbone: Backbone) -> None:
    """Refuse a model whose logits are not head(last hidden): ours would then not be its own."""
    model = backbone.plain_model
    if backbone.head is None:
        raise UserError("the model has no output embedding (get_output_embeddings() is None); a causal LM is needed.")
    training = model.training
    model.eval()
    ids = torch.arange(min(4, backbone.embedding_weight.shape[0]), device=backbone.device)[None]
    with torch.no_grad():
        theirs = model(input_ids=ids).logits.float()
        positions = torch.arange(ids.shape[1], device=ids.device)[None]
        ours = backbone.logits(backbone.trunk(backbone.embedding(ids), None, positions)[0])
    model.train(training)
    if not torch.allclose(ours, theirs, rtol=1e-2, atol=1e-2):
        raise UserError(
            f"{type(model).__name__} changes its logits after the head (scaling or soft-capping), which the losses here "
            f"do not reproduce (difference {float((ours - theirs).abs().max()):.3g})."
        )
