"""A trained model and its questions → how often the fast engine and the plain loop say the same, in each precision.

Weights are the embedded model's, so that answers mean something: on random weights every token is nearly a tie.
"""

from __future__ import annotations

from typing import Any

import torch

from ruplar.bench.report import about
from ruplar.data.sources import SourceConfig, open_source
from ruplar.engine.options import EngineOptions
from ruplar.engine.sampling import Decoding
from ruplar.engine.selfcheck import check_agreement
from ruplar.model.store import load_model
from ruplar.plugins import make

SLOTS = (1, 8, 64)


def agreement(device: str, questions: int = 300, dtypes: tuple[str, ...] = ("float32", "bfloat16")) -> dict[str, Any]:
    """Answer word problems by both engines.

    Args:
        device: Where.
        questions: How many; an engine of one slot, which is slow, is asked an eighth of them.
        dtypes: Precisions.

    Returns:
        One record whose `rows` hold `dtype`, `slots` and what `check_agreement` found.
    """
    source = SourceConfig(source="word-problems", count=questions)
    asked = [e.question for e in open_source(source, make("domains", "arithmetic")).examples]
    rows = []
    for dtype in dtypes:
        for slots in SLOTS:
            model = load_model("embedded:ruplar", device, dtype)
            backbone = model.backbone
            some = asked if slots > 1 else asked[: max(8, questions // 8)]
            found = check_agreement(
                backbone,
                model.method.thinker(backbone),
                [model.prompt(question) for question in some],
                Decoding(max_answer_tokens=16),
                slots,
                EngineOptions(release=True),
            )
            rows.append({"dtype": dtype, "slots": slots, **found})
    exact = [row["same"] for row in rows if row["dtype"] == "float32"]
    return {
        **about("agreement", "embedded", device, ",".join(dtypes)),
        "allows_tf32": bool(torch.backends.cuda.matmul.allow_tf32),
        "float32_same": min(exact) if exact else None,
        "rows": rows,
    }
