"""Random models of every family, as backbones, for the tests of the fast engine."""

import pytest
from engine_helpers import END_THINK, THINK, VOCAB, backbone_of
from toys import LORA, with_random_adapter

from ruplar.model.backbone import Backbone


@pytest.fixture
def make_backbone(tiny_model):
    """Family, with or without adapter → a float32 backbone whose answers end and thoughts halt at different steps."""

    def make(family: str, adapted: bool = False, tied: bool = False) -> Backbone:
        backbone = backbone_of(tiny_model(family, VOCAB, tied, seed=5))
        if adapted:
            backbone.added = (THINK, END_THINK)
            with_random_adapter(backbone, LORA)
        backbone.model.eval()
        return backbone

    return make


@pytest.fixture
def backbone(make_backbone):
    return make_backbone("llama")
