"""Sample thoughts of each validation → the experiment trackers of `training.report_to`, as a table or text.

Losses, entropy and halting reach the trackers through transformers' own callbacks, with every log row.
"""

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

from transformers import TrainerCallback
from transformers.integrations import TensorBoardCallback

from ruplar.errors import UserError
from ruplar.types import Answer, Example

COLUMNS = ("question", "thought", "answer", "reference")
SAMPLES = 4
"""Validation questions whose thoughts are sent."""
_TAG = "eval/thoughts"
_PACKAGES = {
    "tensorboard": ("tensorboard", "tensorboardX"),
    "wandb": ("wandb",),
    "trackio": ("trackio",),
    "mlflow": ("mlflow",),
}

Thought = tuple[str, str, str, str]
"""A row of `COLUMNS`."""


def check_installed(names: Sequence[str]) -> None:
    missing = [name for name in names if name in _PACKAGES and not any(map(find_spec, _PACKAGES[name]))]
    if missing:
        raise UserError(
            *(f"training.report_to: {name} is not installed. Run `pip install {name}`." for name in missing)
        )


def thought_of(example: Example, answer: Answer) -> Thought:
    """An answered question → its row: each latent by its most likely tokens, `3 0.64 * 0.36 | 36 0.62 - 0.38`."""
    latents = [
        " ".join(f"{token.strip()} {p:.2f}" for token, p in zip(latent.tokens[:2], latent.probs, strict=False))
        for latent in answer.latents
    ]
    return example.question, " | ".join(latents) or answer.thought, answer.text.strip(), example.answer


class ThoughtsCallback(TrainerCallback):
    """Send the thoughts of the last validation to every tracker; main process only.

    Args:
        thoughts: Rows that each validation replaces.
        callbacks: Returns the trainer's callbacks; TensorBoard's has the open event file.
    """

    def __init__(self, thoughts: list[Thought], callbacks: Callable[[], Sequence[Any]]):
        self.thoughts, self.callbacks = thoughts, callbacks

    def on_evaluate(self, args, state, control, **kwargs):
        """Send a table where the tracker has tables, else Markdown."""
        if not state.is_world_process_zero or not self.thoughts:
            return
        text, step = _markdown(self.thoughts), state.global_step
        for name in args.report_to:
            if name == "tensorboard":
                [board] = (one for one in self.callbacks() if isinstance(one, TensorBoardCallback))
                board.tb_writer.add_text(_TAG, text, step)
                board.tb_writer.flush()
            elif name == "wandb":
                import wandb

                table = wandb.Table(columns=list(COLUMNS), data=[list(row) for row in self.thoughts])
                wandb.log({_TAG: table, "train/global_step": step})
            elif name == "trackio":
                import trackio

                trackio.log({_TAG: trackio.Markdown(text), "train/global_step": step})
            elif name == "mlflow":
                import mlflow

                mlflow.log_text(text, f"thoughts/step-{step}.md")


def _markdown(thoughts: Sequence[Thought]) -> str:
    rows = [[cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in thoughts]
    return "\n".join(f"| {' | '.join(row)} |" for row in (COLUMNS, ["---"] * len(COLUMNS), *rows))
