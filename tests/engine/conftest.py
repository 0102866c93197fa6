"""Random models of every family, as backbones, for the tests of the fast engine."""

from __future__ import annotations

import pytest
import torch
from engine_toys import END_THINK, THINK, VOCAB, backbone_of

from ruplar.model.backbone import Backbone
from ruplar.model.lora import add_lora
from ruplar.model.settings import LoraSettings


@pytest.fixture
def make_backbone(tiny_model):
    """Family, adapted or not → a backbone in float32 whose answers end and whose thoughts halt now and then."""

    def make(family: str, adapted: bool = False, tied: bool = False) -> Backbone:
        backbone = backbone_of(tiny_model(family, VOCAB, tied, seed=5))
        if adapted:
            backbone.added = (THINK, END_THINK)
            add_lora(backbone, LoraSettings(rank=4, alpha=8, dropout=0.0, embedding=False))
            torch.manual_seed(1)
            with torch.no_grad():
                for weight in backbone.model.parameters():
                    if weight.requires_grad:
                        weight.add_(0.2 * torch.randn_like(weight))
        backbone.model.eval()
        return backbone

    return make
