"""Sample thoughts of each validation → the trackers of `training.report_to`; transformers' callbacks send losses and metrics."""

from collections.abc import Sequence

from transformers import TrainerCallback
from transformers.integrations import MLflowCallback, TensorBoardCallback, TrackioCallback, WandbCallback

from ruplar.types import Answer, Example

COLUMNS = ("question", "thought", "answer", "reference")
SAMPLES = 4
"""Validation questions whose thoughts are sent."""
_TAG = "eval/thoughts"


def thought_row(example: Example, answer: Answer) -> tuple[str, ...]:
    """Make a row of `COLUMNS`; each latent is its two most probable tokens: `3 0.64 * 0.36 | 36 0.62 - 0.38`."""
    pairs = [list(zip(latent.tokens[:2], latent.probs, strict=False)) for latent in answer.latents]
    latents = [" ".join(f"{token.strip()} {p:.2f}" for token, p in pair) for pair in pairs]
    return example.question, " | ".join(latents) or answer.thought, answer.text.strip(), example.answer


class ThoughtsCallback(TrainerCallback):
    """Sends `rows`, which each validation replaces, to the trackers among `callbacks`; main process only."""

    def __init__(self, rows: list[tuple[str, ...]], callbacks: Sequence[TrainerCallback]):
        self.rows, self.callbacks = rows, callbacks

    def on_evaluate(self, args, state, control, **kwargs):
        """Send a table where the tracker has tables, else Markdown."""
        text, at = _markdown(self.rows), {"train/global_step": state.global_step}
        for one in self.callbacks if state.is_world_process_zero else ():
            if isinstance(one, TensorBoardCallback):
                one.tb_writer.add_text(_TAG, text, state.global_step)
            elif isinstance(one, WandbCallback) and one._wandb:  # None where WANDB_DISABLED is set
                table = one._wandb.Table(columns=list(COLUMNS), data=[list(row) for row in self.rows])
                one._wandb.log({_TAG: table, **at})
            elif isinstance(one, TrackioCallback):
                one._trackio.log({_TAG: one._trackio.Markdown(text), **at})
            elif isinstance(one, MLflowCallback):
                one._ml_flow.log_text(text, f"thoughts/step-{state.global_step}.md")


def _markdown(rows: Sequence[Sequence[str]]) -> str:
    cells = [[cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in (COLUMNS, ["---"] * len(COLUMNS), *cells))
