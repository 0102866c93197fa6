"""Train a method on eight chains with a small random Llama until it has memorised them, then evaluate it."""

from types import SimpleNamespace

import torch
from cases import cases
from toys import encoder_of as tools_of
from transformers import AutoConfig, AutoModelForCausalLM

from ruplar import plugins
from ruplar.data.collate import collate
from ruplar.engine.reference import Generation, generate
from ruplar.engine.sampling import Decoding
from ruplar.model.backbone import Backbone
from ruplar.model.load import attach_markers
from ruplar.model.settings import PromptConfig
from ruplar.model.tokenizers import load_tokenizer
from ruplar.problems.word_problems import generate as write_problems
from ruplar.types import Example, SampleContext

SHAPE = cases(__file__, "shape")


def small_backbone() -> Backbone:
    """A random two-layer Llama with 0.2 million weights and the embedded tokenizer."""
    torch.set_num_threads(1)
    tokenizer = load_tokenizer("embedded")
    ids = {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model("llama", vocab_size=len(tokenizer), **SHAPE, **ids))
    return attach_markers(model, tokenizer, PromptConfig(template="chat", instruction="", answer="{answer}"))


def problems(count: int = 8, steps: tuple[int, int] = (1, 3)) -> list[Example]:
    """Word problems, always the same ones."""
    return list(write_problems(count, 7, steps=steps))


def learn_by_heart(method, steps: int = 120, rate: float = 5e-3, examples: list[Example] | None = None):
    """Train a method on all examples in one batch, through its whole curriculum.

    Returns:
        `accuracy` of generated answers, 0 to 1; `losses` of every step; `rows`, the generations; `backbone`.
    """
    examples = examples or problems()
    backbone = small_backbone()
    tools = tools_of(backbone)
    method.attach(backbone)
    extra = [weight for module in method.modules().values() for weight in module.parameters()]
    optimizer = torch.optim.AdamW([*backbone.model.parameters(), *extra], lr=rate, weight_decay=0.0)
    backbone.model.train()
    losses = []
    for step in range(steps):
        items = [method.encode(e, tools, SampleContext(step, row, step / steps)) for row, e in enumerate(examples)]
        loss = method.loss(backbone, collate(items, backbone.pad_id)).total
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_([*backbone.model.parameters(), *extra], 1.0)
        optimizer.step()
        losses.append(loss.item())
    rows = answers_of(backbone, method, [e.question for e in examples])
    domain = plugins.make("domains", "arithmetic")
    found = [domain.extract(backbone.tokenizer.decode(r.answer_ids[:-1] if r.ended else r.answer_ids)) for r in rows]
    right = [f is not None and domain.same(f, e.answer) for f, e in zip(found, examples, strict=True)]
    return SimpleNamespace(accuracy=sum(right) / len(right), losses=losses, rows=rows, backbone=backbone)


def answers_of(backbone: Backbone, method, questions: list[str]) -> list[Generation]:
    """Questions → generations, with their latents."""
    for module in (backbone.model, *method.modules().values()):
        module.eval()
    prompts = [backbone.prompt(method.question(question)) for question in questions]
    decoding = Decoding(max_answer_tokens=8)
    return generate(backbone, method.thinker(backbone), prompts, decoding, keep_latents="embeds")
