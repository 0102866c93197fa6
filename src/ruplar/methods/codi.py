"""CODI: self-distillation; one model is both the teacher, with a written chain, and the student, with latents.

    teacher   P |    steps but the last    | </think> | answer eos      CE on everything after P
    student   P | <think> | z_1 .. z_N     | </think> | answer eos      CE on the answer
                                                    ↑ every layer's hidden state here is trained towards the teacher's

z_1 = g(h at <think>), z_i+1 = g(h at z_i); g is a small network that ends in a LayerNorm. The teacher has no <think>: the hidden
state that z_1 is made of would be trained to predict the constant first token of a chain.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from os.path import commonprefix
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from ruplar.methods import base
from ruplar.methods.base import Loss, Tools
from ruplar.settings import Settings
from ruplar.types import Batch, Example, Item, SampleContext

if TYPE_CHECKING:
    from torch import Tensor, nn

    from ruplar.engine.thinker import HiddenThinker
    from ruplar.model.backbone import Backbone


class Config(Settings):
    """Settings of CODI."""

    latents: int = Field(6, ge=1, description="Number of latents.")
    answer_weight: float = Field(1.0, ge=0, description="Weight of the student's answer.")
    teacher_weight: float = Field(1.0, ge=0, description="Weight of the teacher's chain and answer.")
    distill_weight: float = Field(20.0, ge=0, description="γ: weight of the distance to the teacher's hidden states.")
    include_last_step: bool = Field(False, description="Include the last step in the teacher's chain.")


@dataclass
class Method(base.Method):
    """See the module's docstring."""

    config: Config
    packs: ClassVar[bool] = False
    projector: Any = field(default=None, repr=False)

    def attach(self, backbone: Backbone) -> None:
        from ruplar.model.rollout import Projector

        self.projector = Projector(backbone.embedding_weight.shape[1]).to(backbone.device)

    def modules(self) -> dict[str, nn.Module]:
        return {} if self.projector is None else {"projector": self.projector}

    def encode(self, example: Example, tools: Tools, context: SampleContext) -> Item:
        """Encode the student's sequence with the teacher's as companion; both mark the token before the answer proper."""
        c, prompt = self.config, tools.prompt(self.question(example.question, context))
        answer = tools.answer(example.answer)
        # differs from the paper: D36. It drops samples whose answer starts with a sign; here the mark handles them
        lead = len(commonprefix([answer, tools.answer("1" if example.answer[:1] != "1" else "2")]))
        steps = example.steps if c.include_last_step else example.steps[:-1]
        text = tools.encode(base.chain_text(steps))
        teacher = base.text_item(prompt, [], [*text, tools.end_think_id, *answer])
        teacher.mark_at = [len(prompt.ids) + len(text) + lead]
        student = base.latent_item(prompt, tools, c.latents, answer, halts=False)
        return replace(student, mark_at=[len(prompt.ids) + 1 + c.latents + lead], also={"teacher": [teacher]})

    def loss(self, backbone: Backbone, batch: Batch) -> Loss:
        """Student and teacher losses and their distance: N + 1 forward passes for the student, one for the teacher."""
        from ruplar.model.forward import flat_layers
        from ruplar.model.rollout import roll_out

        c, teacher_batch = self.config, batch.also["teacher"]
        rolled = roll_out(backbone, batch, self.projector, all_layers=c.distill_weight > 0)
        student = base.label_loss_at(backbone, batch, rolled.at(batch.label_at))
        hidden, layers = flat_layers(backbone, teacher_batch, teacher_batch.mark_at)
        teacher = base.label_loss_at(backbone, teacher_batch, hidden[teacher_batch.label_at])
        parts = {"answer": c.answer_weight * student.total, "teacher": c.teacher_weight * teacher.total}
        if c.distill_weight:
            gap = distance(rolled.layers_at(batch.mark_at), layers.detach(), batch.totals[1])
            parts["distill"] = c.distill_weight * gap
        return Loss(parts, student.watch)

    def thinker(self, backbone: Backbone) -> HiddenThinker:
        from ruplar.engine.thinker import HiddenThinker

        return HiddenThinker(self.config.latents, self.projector)


def distance(student: Tensor, teacher: Tensor, rows: Tensor) -> Tensor:
    """Smooth L1 of hidden states in units of the teacher's standard deviation per layer, averaged over layers and rows."""
    from torch.nn.functional import smooth_l1_loss

    a, b = student.float(), teacher.float()
    loss = smooth_l1_loss(a, b, reduction="none").mean(-1)  # [layers, B]
    # never 0: the embedding layer is constant where all marked tokens are the same
    spread = b.flatten(1).std(1, keepdim=True).clamp_min(1e-6)
    return (loss / spread).mean(0).sum() / rows.clamp_min(1)
