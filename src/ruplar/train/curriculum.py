"""Stages of a run: where one rises the optimiser starts afresh, graphs of other lengths go, and only the last is chosen from.

Both ask the method what stage a step belongs to, rather than remember it, so that a resumed run does the same.
"""

from __future__ import annotations

from collections.abc import Callable

from transformers import TrainerCallback

from ruplar.methods.base import Method
from ruplar.model.backbone import Backbone
from ruplar.train.sampler import Order


class CurriculumCallback(TrainerCallback):
    """Tells the order of rows which epoch it is, and lets go of what belongs to a stage that is over.

    Args:
        method: Says which stage it is, and by `config.reset_optimizer` whether the optimiser's moments are forgotten.
        backbone: Has the graphs that passes are replayed from, if any.
        order: The order of rows in use.
    """

    def __init__(self, method: Method, backbone: Backbone, order: Callable[[], Order]):
        self.method, self.backbone, self.order = method, backbone, order

    def on_epoch_begin(self, args, state, control, **kwargs):
        """Accelerate does not reach the order when it skips batches or shards them."""
        self.order().set_epoch(int(state.epoch or 0))

    def on_step_begin(self, args, state, control, optimizer=None, **kwargs):
        """Before the first micro-batch of an optimiser step."""
        stage, step, steps = self.method.stage, state.global_step, state.max_steps
        rises = step > 0 and stage(step / steps) > stage((step - 1) / steps)
        if rises and getattr(self.method.config, "reset_optimizer", False):
            optimizer.state.clear()
        if rises and not self.method.packs and self.backbone.replay is not None:
            self.backbone.replay.forget()  # latents made one from another: lengths change, few graphs would fit


def in_last_stage(method: Method, step: int, steps: int) -> bool:
    """Whether a model that has taken `step` of `steps` steps took its last one in the method's last stage."""
    return method.stage((step - 1) / steps) >= method.stage((steps - 1) / steps)
