"""Hugging Face modules → fused matrices: q|k|v and gate|up in one matrix each, adapters merged.

A model is supported by its structure: a trunk of `layers`, `norm` and `rotary_emb`, whose layers have two norms, attention
with four projections (and optional norms of q and k) and a SiLU-gated MLP. `decoder.Decoder.of` then checks that it computes
the same outputs.

Axes: D width, H query heads, G key heads, d head width, I inner width, V vocabulary.
"""

import platform
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ruplar.model.backbone import Backbone
from ruplar.model.lora import merged

LAYER_PARTS = {"self_attn", "mlp", "input_layernorm", "post_attention_layernorm"}
ATTENTION_PARTS = {"q_proj", "k_proj", "v_proj", "o_proj"}
MLP_PARTS = {"gate_proj", "up_proj", "down_proj", "act_fn"}
HEAD_MULTIPLE = 64  # rows of the LM head on a GPU
MOVING_ROPE = ("dynamic", "longrope")  # their frequencies depend on the longest position so far


@dataclass
class Linear:
    """A matrix [out, in] and an optional bias [out]."""

    weight: Tensor
    bias: Tensor | None = None
    packed: Tensor | None = None  # the matrix in oneDNN's own layout

    def __call__(self, x: Tensor) -> Tensor:
        if self.packed is None:
            return F.linear(x, self.weight, self.bias)
        return torch.ops.mkldnn._linear_pointwise(x, self.packed, self.bias, "none", [], "")

    def pack(self) -> None:
        """On an x86 CPU, copy the matrix into oneDNN's layout: its products are faster than those of F.linear."""
        on_x86 = self.weight.device.type == "cpu" and platform.machine() in ("x86_64", "AMD64")
        if not on_x86 or not torch.backends.mkldnn.is_available():
            return
        dtype = self.weight.dtype
        if dtype == torch.float32 or (dtype == torch.bfloat16 and torch.ops.mkldnn._is_mkldnn_bf16_supported()):
            self.packed = torch.ops.mkldnn._reorder_linear_weight(self.weight.contiguous(), None)

    def add_to(self, total: Tensor, x: Tensor) -> None:
        """Add the output for x [..., in] to a contiguous `total` [..., out]; on a GPU the product itself does it."""
        if total.is_cuda and self.bias is None:
            total.view(-1, total.shape[-1]).addmm_(x.flatten(0, -2), self.weight.t())
        else:
            total += self(x)


@dataclass
class Layer:
    """One layer's weights."""

    qkv: Linear  # [(H + 2G)·d, D], queries first, then keys, then values
    out: Linear  # [D, H·d] after attention
    gate_up: Linear  # [2I, D], gates first
    down: Linear  # [D, I]
    norm_in: Tensor  # [D] scale before attention
    norm_mid: Tensor  # [D] scale before the MLP
    norm_q: Tensor | None  # [d] scale of each query; None in most models
    norm_k: Tensor | None  # [d] scale of each key; None in most models


@dataclass
class Weights:
    """The weights of a whole model."""

    layers: list[Layer]  # first to last
    norm: Tensor  # [D] scale before the head
    table: Tensor  # [V, D] input embeddings
    head: Linear  # [V, D] LM head, the table itself if tied; on a GPU with rows of zeros up to a multiple of 64
    heads: int  # H
    kv_heads: int  # G
    head_dim: int  # d
    eps: float  # epsilon of all norms
    rotary: Any  # the model's own module: (x, positions [1, S]) → cos and sin [1, S, d]

    def pack(self) -> None:
        """Pack every matrix; see `Linear.pack`."""
        for layer in self.layers:
            for linear in (layer.qkv, layer.out, layer.gate_up, layer.down):
                linear.pack()
        self.head.pack()


def covers(backbone: Backbone) -> bool:
    trunk = backbone.plain_model.base_model
    if not all(hasattr(trunk, part) for part in ("layers", "norm", "rotary_emb")) or not len(trunk.layers):
        return False
    if getattr(trunk.rotary_emb, "rope_type", "default") in MOVING_ROPE:
        return False
    return all(_covers_layer(layer) for layer in trunk.layers)


def _covers_layer(layer: Any) -> bool:
    parts = {name for name, _ in layer.named_children()}
    if parts != LAYER_PARTS:
        return False
    attention, mlp = layer.self_attn, layer.mlp
    inside = {name for name, _ in attention.named_children()}
    if inside - {"q_norm", "k_norm"} != ATTENTION_PARTS or getattr(attention, "sliding_window", None):
        return False
    if {name for name, _ in mlp.named_children()} != MLP_PARTS:
        return False
    x = torch.linspace(-3, 3, 7)
    return torch.allclose(mlp.act_fn(x), F.silu(x), atol=1e-6)


@torch.no_grad()
def read_weights(backbone: Backbone, release: bool = False) -> Weights:
    """Fuse the weights of a supported model.

    With `release` one copy is held: the Hugging Face modules become views of the fused matrices and stay usable.
    An adapter is merged into the model first, and `backbone.model` becomes the merged model.
    """
    if release and hasattr(backbone.model, "peft_config"):
        backbone.set_model(merged(backbone))
    trunk = backbone.plain_model.base_model
    attention = trunk.layers[0].self_attn
    d = int(attention.head_dim)
    table = _table(backbone.embedding)
    head = _head(backbone, table)
    if table.is_cuda:
        table, head = padded(table, head)
        if release and type(backbone.embedding) is nn.Embedding:
            backbone.embedding.weight.data = table
    return Weights(
        layers=[_layer(layer, release) for layer in trunk.layers],
        norm=trunk.norm.weight.detach(),
        table=table,
        head=head,
        heads=_linear(attention.q_proj).weight.shape[0] // d,
        kv_heads=_linear(attention.k_proj).weight.shape[0] // d,
        head_dim=d,
        eps=float(getattr(trunk.norm, "variance_epsilon", getattr(trunk.norm, "eps", 1e-6))),
        rotary=trunk.rotary_emb,
    )


def _layer(layer: Any, release: bool) -> Layer:
    attention, mlp = layer.self_attn, layer.mlp
    norm_q, norm_k = (getattr(attention, name, None) for name in ("q_norm", "k_norm"))
    return Layer(
        qkv=_fuse([attention.q_proj, attention.k_proj, attention.v_proj], release),
        out=_linear(attention.o_proj),
        gate_up=_fuse([mlp.gate_proj, mlp.up_proj], release),
        down=_linear(mlp.down_proj),
        norm_in=layer.input_layernorm.weight.detach(),
        norm_mid=layer.post_attention_layernorm.weight.detach(),
        norm_q=norm_q.weight.detach() if norm_q is not None else None,
        norm_k=norm_k.weight.detach() if norm_k is not None else None,
    )


def _fuse(modules: list[Any], release: bool) -> Linear:
    """Projections of one input → one matrix; with `release` each module's weight becomes a view of it."""
    parts = [_linear(module) for module in modules]
    weight = _one_matrix([part.weight for part in parts])
    bias = torch.cat([part.bias for part in parts if part.bias is not None]) if parts[0].bias is not None else None
    if release:
        start = 0
        for module in modules:
            end = start + module.weight.shape[0]
            module.weight.data = weight[start:end]
            start = end
    return Linear(weight, bias)


def _one_matrix(parts: list[Tensor]) -> Tensor:
    """Concatenate matrices; without a copy if they are adjacent already, after an earlier release."""
    ends = [part.data_ptr() + part.numel() * part.element_size() for part in parts]
    together = all(part.data_ptr() == end for part, end in zip(parts[1:], ends, strict=False))
    size = (sum(len(part) for part in parts), parts[0].shape[1])
    storage = parts[0].untyped_storage()
    if together and all(part.untyped_storage().data_ptr() == storage.data_ptr() for part in parts):
        return parts[0].as_strided(size, (size[1], 1))
    return torch.cat(parts)


def _linear(module: Any) -> Linear:
    """A projection's matrix, its LoRA merged into a copy; summed in float32 and rounded once."""
    base = module.get_base_layer() if hasattr(module, "get_base_layer") else module
    weight = base.weight.detach()
    bias = base.bias.detach() if base.bias is not None else None
    if base is not module and not module.merged and not module.disable_adapters:
        total = weight.float()
        for name in module.active_adapters:
            if name in module.lora_A:
                total = total + module.get_delta_weight(name).detach().float()
        weight = total.to(weight.dtype)
    return Linear(weight, bias)


def _table(embedding: nn.Module) -> Tensor:
    """[V, D] output of the embedding module for each token, trained rows and adapters included."""
    if type(embedding) is nn.Embedding:
        return embedding.weight.detach()
    rows = next(m for m in embedding.modules() if isinstance(m, nn.Embedding)).weight
    return embedding(torch.arange(len(rows), device=rows.device)).detach()


def padded(table: Tensor, head: Linear) -> tuple[Tensor, Linear]:
    """Pad the head with rows of zeros to a multiple of 64 rows; a tied table becomes a view of it.

    With a vocabulary that is no multiple of 8 the product is several times slower. `Decoder.logits` drops the padding.
    """
    missing = -len(head.weight) % HEAD_MULTIPLE
    if not missing:
        return table, head
    weight = F.pad(head.weight, (0, 0, 0, missing))
    bias = None if head.bias is None else F.pad(head.bias, (0, missing))
    tied = head.weight.data_ptr() == table.data_ptr()
    return (weight[: len(table)] if tied else table), Linear(weight, bias)


def _head(backbone: Backbone, table: Tensor) -> Linear:
    head = backbone.head
    if type(head) is nn.Linear:
        return Linear(head.weight.detach(), head.bias.detach() if head.bias is not None else None)
    # the matrix of an adapted head: column i is its output for the i-th unit vector
    width = table.shape[1]
    bias = head(torch.zeros(1, width, dtype=backbone.head_dtype, device=table.device))[0]
    units = torch.eye(width, dtype=backbone.head_dtype, device=table.device)
    weight = (head(units) - bias).T.contiguous()
    if torch.equal(weight, table):
        weight = table
    return Linear(weight, bias if bool(bias.any()) else None)
