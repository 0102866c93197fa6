"""A backbone with an adapter → the model that training started from, for a while.

That is the backbone without its adapter; where the adapter goes on from another run's, the backbone with that one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ruplar.errors import UserError
from ruplar.model.backbone import Backbone
from ruplar.model.lora import START, TRAINED


@contextmanager
def unadapted(backbone: Backbone, what_for: str) -> Iterator[None]:
    """Inside, the adapter is as it started (at first it does nothing) and dropout is off; afterwards all is as before.

    Args:
        backbone: With an adapter.
        what_for: The setting that needs it, for the message.

    Raises:
        UserError: There is no adapter to leave out, or layers are computed again in the backward pass, with it.
    """
    model = backbone.model
    if not hasattr(model, "peft_config"):
        raise UserError(
            f"{what_for}: needs the model that training started from, which is the backbone without its adapter, but all "
            "weights are trained here. Set backbone.lora, or leave it out."
        )
    training = model.training
    model.eval()
    try:
        if START in model.peft_config:
            model.set_adapter(START)
            try:
                yield
            finally:
                model.set_adapter(TRAINED)
        else:
            with model.disable_adapter():
                yield
    finally:
        model.train(training)


def refuse_checkpointing(backbone: Backbone, what_for: str) -> None:
    """Refuse gradient checkpointing where gradient flows through layers whose adapter is switched off for a while."""
    if getattr(backbone.plain_model, "is_gradient_checkpointing", False):
        raise UserError(
            f"{what_for}: cannot be had together with training.gradient_checkpointing, which would compute the layers "
            "again with the adapter. Turn one of them off."
        )
