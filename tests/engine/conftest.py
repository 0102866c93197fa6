"""Random models of every family, as backbones, for the tests of the fast engine."""

from __future__ import annotations

import pytest
import torch
from engine_helpers import END_THINK, THINK, VOCAB, backbone_of

from ruplar.model.backbone import Backbone
from ruplar.model.lora import add_lora
from ruplar.model.settings import LoraSettings


@pytest.fixture
def make_backbone(tiny_model):
    """Family, with or without adapter → a float32 backbone whose answers end and thoughts halt at different steps."""

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
