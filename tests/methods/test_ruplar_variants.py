"""The paper's ablations and the packaged RuPLaR recipes: each is a set of overrides, and takes a training step."""

import pytest
import torch
from cases import cases
from overfitting import problems, small_backbone

from ruplar.config import load_recipe
from ruplar.data.collate import collate
from ruplar.data.encoding import Encoder
from ruplar.model.lora import add_lora
from ruplar.priors.base import PriorTable
from ruplar.types import SampleContext

ABLATIONS = cases(__file__, "ablations")


def one_step(recipe: str, overrides: str) -> dict[str, float]:
    """Train the recipe's method on four problems for one step over a small backbone → the loss in parts."""
    config = load_recipe(recipe, overrides.split(), check_files=False)
    backbone = small_backbone()
    add_lora(backbone, config.backbone.lora)
    method = config.method.make()
    method.attach(backbone)
    table = PriorTable(config.prior.make(), backbone.prompt.plain, config.seed)
    tools = Encoder(backbone.prompt, backbone.markers, config.data.domain.make(), config.spans.make(), table)
    items = [method.encode(e, tools, SampleContext(0, row, 0.9)) for row, e in enumerate(problems(4))]
    weights = [w for w in backbone.model.parameters() if w.requires_grad]
    before = [w.detach().clone() for w in weights]
    backbone.model.train()
    loss = method.loss(backbone, collate(items, backbone.pad_id, config.speed.pack if method.packs else 0))
    loss.total.backward()
    assert all(torch.isfinite(w.grad).all() for w in weights if w.grad is not None)
    torch.optim.AdamW(weights, lr=1e-3).step()
    assert any(not torch.equal(a, b) for a, b in zip(weights, before, strict=True))
    return {name: part.item() for name, part in loss.parts.items()}


@pytest.mark.parametrize("overrides", ABLATIONS.values(), ids=ABLATIONS)
def test_an_ablation_takes_a_training_step(overrides):
    parts = one_step("embedded-ruplar", overrides)
    assert all(value == value and value >= -1e-4 for value in parts.values()) and sum(parts.values()) > 0


@pytest.mark.parametrize("recipe", ["ruplar", "ruplar-temp", "ruplar-gumbel", "embedded-ruplar", "embedded-live"])
def test_the_paper_s_recipes_use_no_extension(recipe):
    config = load_recipe(recipe, check_files=False).method.make().config
    assert config.input_noise == 0 and config.distill_logits == 0


def test_ruplar_plus_differs_only_in_method_and_prior():
    assert set(one_step("embedded-ruplar-plus", "")) == {"answer", "prior", "align"}
    plus, plain = (
        load_recipe(name, check_files=False).as_dict() for name in ("embedded-ruplar-plus", "embedded-ruplar")
    )
    assert {k for k in plus if plus[k] != plain[k]} == {"name", "method", "prior"}
