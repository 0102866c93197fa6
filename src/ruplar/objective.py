"""Hidden states at supervised positions → the three losses: answer cross-entropy, prior KL, problem-thought alignment.

The LM head sees only supervised positions, about 15 of 130. No [B, S, V] tensor and no V-sized prior is ever allocated: the
KL needs the logits of the prior's few tokens and one logsumexp. All losses are sums divided by totals given by the caller,
so gradient accumulation over small batches equals one large batch.

Axes: M latents of the batch, T labels of the batch, K tokens of a prior, V vocabulary, D width.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor

Head = Callable[[Tensor], Tensor]
"""Hidden [N, D] → logits [N, V]."""


@dataclass
class HeadOutputs:
    """What the losses need from the logits of N positions; nothing V-sized."""

    picked: Tensor  # [N, K] log-probabilities of the requested tokens
    top: Tensor  # [N] the most likely token
    entropy: Tensor  # [N] in nats, without gradient


def read(head: Head, hidden: Tensor, ids: Tensor, fused: bool = False) -> HeadOutputs:
    """Log-probabilities of the tokens `ids` [N, K] at the supervised positions `hidden` [N, D].

    `fused` compiles what follows the head: [N, V] is then read twice instead of a dozen times.
    """
    summarize = _compiled() if fused else _summarize
    return HeadOutputs(*summarize(head(hidden), ids))


@cache
def _compiled() -> Callable[[Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]:
    return torch.compile(_summarize, dynamic=True)


def _summarize(logits: Tensor, ids: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    logits = logits.float()
    norm = logits.logsumexp(-1, keepdim=True)
    picked = logits.gather(-1, ids) - norm
    with torch.no_grad():
        probs = (logits - norm).exp()
        entropy = norm.squeeze(-1) - (probs * logits).sum(-1)
        top = logits.argmax(-1)
    return picked, top, entropy


def answer_ce(log_probs: Tensor, total: Tensor) -> Tensor:
    """Log-probabilities of the labels [T] → cross-entropy in nats, averaged over all labels of the optimizer step."""
    # differs from the paper: D15. Its code averages over a micro-batch; here over the optimizer step
    return -log_probs.sum() / total.clamp_min(1)


def prior_kl(log_q: Tensor, probs: Tensor, share: Tensor, total: Tensor, keep: Tensor | None = None) -> Tensor:
    """KL(prior || model) in nats, averaged over a row's latents, then over rows.

    `log_q` [M, K] are the model's log-probabilities of the prior's tokens under its full-vocabulary softmax,
    `share` [M] is 1 / N of the latent's row, `total` counts rows with latents in the optimizer step, and `keep`
    [M, K] are the tokens of the focused KL, not renormalised.
    """
    terms = torch.where(probs > 0, probs * (probs.clamp_min(1e-30).log() - log_q), 0.0)
    if keep is not None:
        terms = terms * keep
    # differs from the paper: D15. As above, over rows with latents
    return (terms.sum(-1) * share).sum() / total.clamp_min(1)


def focus(probs: Tensor, threshold: float, top_k: int | None) -> Tensor:
    """[M, K] bool: tokens strictly above `threshold` and among the first `top_k`; priors are sorted by probability."""
    keep = probs > threshold
    # differs from the paper: D13. It names a top-k but no k, and its code has none; off by default
    if top_k is not None:
        keep[:, top_k:] = False
    return keep


def alignment(question: Tensor, thought: Tensor, share: Tensor, total: Tensor, normalize: bool = False) -> Tensor:
    """KL(softmax(h_q) || softmax(h_z)) over the D features, averaged over a row's latents, then over rows; in float32.

    `question` [M, D] is taken at the last token of each latent's question, `thought` [M, D] at the latent. As
    printed, without `normalize`, one or two outlier features dominate the softmax and the loss is 0 within 200
    steps.
    """
    # differs from the paper: D14. float32, where its code uses the model's precision; standardised by default
    q, z = question.float(), thought.float()
    if normalize:
        q, z = F.layer_norm(q, q.shape[-1:]), F.layer_norm(z, z.shape[-1:])
    log_q, log_z = q.log_softmax(-1), z.log_softmax(-1)
    kl = (log_q.exp() * (log_q - log_z)).sum(-1)
    return (kl * share).sum() / total.clamp_min(1)


def token_kl(teacher: Tensor, student: Tensor, total: Tensor) -> Tensor:
    """KL(teacher || student) in nats of next-token logits [T, V], averaged over all labels of the optimizer step."""
    log_p, log_q = teacher.log_softmax(-1), student.log_softmax(-1)
    return (log_p.exp() * (log_p - log_q)).sum() / total.clamp_min(1)
