"""Think in soft tokens, then answer: a `generate` function for plain transformers, which does not import ruplar.

`ruplar export --custom-generate` writes this file, with the model's own `SETTINGS`, to custom_generate/generate.py:

    model.generate(**inputs, custom_generate=FOLDER, trust_remote_code=True)

The thought fills the KV cache; transformers' own `generate` continues from there. Axes: B rows, V vocabulary, K tokens.
"""

from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache

SETTINGS: dict[str, Any] = {}


@torch.no_grad()
def generate(
    model: Any,
    input_ids: Tensor | None = None,
    attention_mask: Tensor | None = None,
    inputs: Tensor | None = None,
    show_thought: bool = False,
    **kwargs: Any,
) -> Any:
    """Return prompt, thought and answer; a soft token is a `<think>` token, or with `show_thought` its most likely token."""
    ids = inputs if input_ids is None else input_ids
    if ids is None:
        raise ValueError("custom_generate: pass input_ids, as tokenizer.apply_chat_template returns them.")
    for name in ("custom_generate", "trust_remote_code"):  # passed again to a model loaded with trust_remote_code
        kwargs.pop(name, None)
    config = kwargs.get("generation_config") or model.generation_config
    for name in ("num_beams", "num_return_sequences"):
        if (kwargs.get(name) or getattr(config, name, None) or 1) > 1:
            raise ValueError(f"custom_generate: {name} must be 1. Repeat the prompt in the batch instead.")
    mask = torch.ones_like(ids) if attention_mask is None else attention_mask
    if not bool(mask[:, -1].all()):
        raise ValueError("custom_generate: prompts must be padded on the left. Set tokenizer.padding_side = 'left'.")
    if bool((ids[:, -1] != SETTINGS["think_id"]).any()):
        ids, mask = _column(ids, SETTINGS["think_id"]), _column(mask, 1)
    ids, mask, cache = _think(model, ids, mask, show_thought)
    ids, mask = _column(ids, SETTINGS["end_think_id"]), _column(mask, 1)
    # the class's method: that of the object may have been replaced by this function
    return type(model).generate(model, input_ids=ids, attention_mask=mask, past_key_values=cache, **kwargs)


def _think(model: Any, ids: Tensor, mask: Tensor, show_thought: bool) -> tuple[Tensor, Tensor, Any]:
    """Fill a cache with prompt and soft tokens; a row that has halted is masked while others think."""
    cache, embed = DynamicCache(config=model.config), model.get_input_embeddings()
    embeds, thinking = embed(ids), torch.ones_like(ids[:, 0], dtype=torch.bool)
    for made in range(SETTINGS["cap"] + 1):
        positions = (mask.cumsum(1) - 1).clamp_min(0)[:, -embeds.shape[1] :]
        state = {"attention_mask": mask, "position_ids": positions, "past_key_values": cache}
        logits = model(inputs_embeds=embeds, **state, use_cache=True, logits_to_keep=1).logits[:, -1]
        over, weights, tokens = _soft_token(logits.float())
        thinking = thinking & ~over
        if made == SETTINGS["cap"] or not bool(thinking.any()):
            break
        rows = embed(tokens)
        embeds = torch.einsum("bkd,bk->bd", rows.float(), weights).to(rows.dtype)[:, None]
        shown = tokens[:, 0] if show_thought else torch.full_like(ids[:, 0], SETTINGS["think_id"])
        ids = torch.cat([ids, torch.where(thinking, shown, SETTINGS["pad_id"])[:, None]], dim=1)
        mask = torch.cat([mask, thinking[:, None].to(mask.dtype)], dim=1)
    return ids, mask, cache


def _soft_token(logits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Logits [B, V] → whether the thought is over [B], and weights and ids [B, K] of the next soft token."""
    probs, end = logits.softmax(-1), SETTINGS["end_think_id"]
    by_argmax = SETTINGS["halt"] == "argmax"
    over = logits.argmax(-1) == end if by_argmax else probs[:, end] > SETTINGS["halt_threshold"]
    if SETTINGS["drop_halt"]:
        probs[:, end] = 0
    weights, ids = probs.topk(SETTINGS["top_k"] or probs.shape[-1], dim=-1)
    return over, weights / weights.sum(-1, keepdim=True).clamp_min(torch.finfo(weights.dtype).tiny), ids


def _column(rows: Tensor, value: int) -> Tensor:
    return torch.cat([rows, torch.full_like(rows[:, :1], value)], dim=1)
