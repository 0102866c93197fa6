"""The paper's ablations, and the packaged recipes of ruplar: each is reached by overrides, and takes a training step."""

from __future__ import annotations

import pytest
import torch
from overfitting import problems, small_backbone

from ruplar.config import load_recipe
from ruplar.data.collate import collate
from ruplar.data.encoding import Encoder
from ruplar.model.lora import add_lora
from ruplar.priors.base import PriorTable
from ruplar.types import SampleContext

ABLATIONS = {
    "temperature": "prior=temperature",
    "gumbel": "prior=gumbel",
    "mixture": "prior=mixture",
    "random": "prior=random",
    "uniform": "prior=uniform",
    "learned": "prior=learned",
    "strength 0.3": "method.prior_weight=0.3",
    "strength 2.0": "method.prior_weight=2.0",
    "without focus": "method.focus_threshold=0",
    "without the prior": "method.prior_weight=0",
    "without alignment": "method.align_weight=0",
    "alignment as printed": "method.align_weight=1 method.align_normalize=false",
    "alignment repaired": "method.align_weight=1 method.align_layer=1 method.align_stop_gradient=true",
    "k=2": "spans=every_k spans.k=2 method.max_latents=32",
    "equal split": "spans=result_split method.max_latents=32",
    "ordered results": "spans=result_pieces",
    "own soft tokens": "method.own_latents=0.5 method.own_latents_ramp=0.5 method.own_passes=2",
    "noised inputs": "method.input_noise=0.5",
    "step decoder": "method.step_weight=0.5 method.step_layers=2",
    "the backbone decodes steps": "method.step_weight=0.5 method.step_decoder=backbone method.step_reads=reading",
    "hidden states distilled": "method.distill_hidden=1.0",
    "answers distilled": "method.distill_logits=1.0",
}


def one_step(recipe: str, overrides: str) -> dict[str, float]:
    """Train the recipe's method on four problems for one step over a small backbone → the loss in parts."""
    config = load_recipe(recipe, overrides.split(), check_files=False)
    backbone = small_backbone()
    add_lora(backbone, config.backbone.lora)
    method = config.method.make()
    method.attach(backbone)
    table = PriorTable(config.prior.make(), backbone.prompt.plain, config.seed)
    ids = backbone.think_id, backbone.end_think_id, backbone.eos_id
    tools = Encoder(backbone.prompt, *ids, config.data.domain.make(), config.spans.make(), table)
    items = [method.encode(e, tools, SampleContext(0, row, 0.9)) for row, e in enumerate(problems(4))]
    weights = [w for w in backbone.model.parameters() if w.requires_grad]
    weights += [w for module in method.modules().values() for w in module.parameters()]
    before = [w.detach().clone() for w in weights]
    backbone.model.train()
    loss = method.loss(backbone, collate(items, backbone.pad_id, config.speed.pack if method.packs else 0))
    loss.total.backward()
    assert all(torch.isfinite(w.grad).all() for w in weights if w.grad is not None)
    torch.optim.AdamW(weights, lr=1e-3).step()
    assert any(not torch.equal(a, b) for a, b in zip(weights, before, strict=True))
    return {name: part.item() for name, part in loss.parts.items()}


@pytest.mark.parametrize("overrides", ABLATIONS.values(), ids=ABLATIONS)
def test_an_ablation_is_a_matter_of_overrides_and_takes_a_step(overrides):
    parts = one_step("embedded-ruplar", overrides)
    assert all(value == value and value >= -1e-4 for value in parts.values()) and sum(parts.values()) > 0


@pytest.mark.parametrize("recipe", ["ruplar", "ruplar-temp", "ruplar-gumbel", "embedded-ruplar", "embedded-live"])
def test_the_paper_s_recipes_have_nothing_beyond_the_paper(recipe):
    config = load_recipe(recipe, check_files=False).method.make().config
    assert not config.draws and not config.teaches and config.step_weight == 0


def test_ruplar_plus_is_the_same_data_and_budget_with_other_settings():
    assert set(one_step("embedded-ruplar-plus", "")) == {"answer", "prior", "align"}
    plus, plain = (
        load_recipe(name, check_files=False).as_dict() for name in ("embedded-ruplar-plus", "embedded-ruplar")
    )
    assert {k for k in plus if plus[k] != plain[k]} == {"name", "method", "prior"}
