"""Small models with random weights, as training would leave them, and questions for them."""

import torch

from ruplar import plugins
from ruplar.data.encoding import Encoder
from ruplar.model.backbone import Backbone
from ruplar.model.lora import add_lora
from ruplar.model.settings import BackboneConfig, LoraSettings, PromptConfig
from ruplar.model.store import Model, ModelMetadata, PluginSpec, load_start
from ruplar.priors.base import PriorTable

PROMPT = PromptConfig(instruction="", answer="{answer}")
LORA = LoraSettings(rank=2, alpha=4, dropout=0.0)
QUESTIONS = [
    "How many?",
    "Anna has 3 bags of 4 apples each. How many apples does she have?",
    "What is 2+2, Tom?",
    "3*4",
    "A train leaves at 9 and arrives at 11. How long was it on the way?",
    "Ben had 12 pens and gave away 5. How many are left?",
]


def opened(method: str = "ruplar", settings: dict | None = None, **backbone) -> Model:
    """The start of a run: `backbone` are settings of its backbone section."""
    config = BackboneConfig(**backbone)
    named = PluginSpec(name=method, settings=settings or {})
    metadata = ModelMetadata(method=named, backbone=config, prompt=PROMPT, domain=PluginSpec(name="arithmetic"))
    made, way = load_start(config, PROMPT), plugins.make("methods", method, settings)
    way.attach(made)
    made.model.eval()
    return Model(made, way, plugins.make("domains", "arithmetic"), metadata)


def moved(model: Model, seed: int = 1) -> Model:
    """Every trained weight somewhere else."""
    torch.manual_seed(seed)
    with torch.no_grad():
        for module in (model.backbone.model, *model.method.modules().values()):
            for weight in (w for w in module.parameters() if w.requires_grad):
                weight.add_(torch.randn_like(weight) * 0.1)
    return model


def encoder_of(backbone: Backbone, prior: str = "mixture") -> Encoder:
    """The encoder of a recipe with this prior and one latent per step."""
    table = PriorTable(plugins.make("priors", prior), backbone.prompt.plain)
    parts = plugins.make("domains", "arithmetic"), plugins.make("spans", "step")
    return Encoder(backbone.prompt, backbone.markers, *parts, table)


def with_random_adapter(backbone: Backbone, lora: LoraSettings, seed: int = 1) -> Backbone:
    """Add an adapter whose weights are all drawn; a new one starts at zero and has no effect."""
    add_lora(backbone, lora)
    torch.manual_seed(seed)
    for weight in backbone.model.parameters():
        if weight.requires_grad:
            torch.nn.init.normal_(weight, std=0.1)
    return backbone


def assert_same(found, wanted, far: float = 1e-4) -> None:
    """Two engines' generations are the same, and their latents `far` apart at most."""
    assert len(found) == len(wanted)
    for place, (a, b) in enumerate(zip(found, wanted, strict=True)):
        for name in ("answer_ids", "thought_ids", "latent_count", "forwards", "halted", "ended"):
            assert getattr(a, name) == getattr(b, name), (place, name)
        for name in ("latent_embeds", "latent_logits"):
            for x, y in zip(getattr(a, name), getattr(b, name), strict=True):
                torch.testing.assert_close(x, y, atol=far, rtol=far)
