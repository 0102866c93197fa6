"""A trained model that can sample thoughts → the same model, reinforced by the correctness of its answers (GRPO).

    round   questions –sample a group of thoughts each→ rewards –relative to the group→ advantages
            –mini-batches of thoughts→ clipped policy loss –AdamW→ the next round

Every latent and every answer token, including the `</think>` before it, is reinforced. There is no value model and no KL
term. Settings come from `method.grpo`; the recipe's `training:` section is not used. A step of the curve (`metrics.jsonl`) is a
round. There are no checkpoints: a run that is resumed starts again from its start model.

Axes: Q questions, G thoughts of each, B thoughts of a mini-batch, M latents, T labels, D width.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_callback import CallbackHandler, DefaultFlowCallback

from ruplar.config import RunConfig
from ruplar.data.collate import collate
from ruplar.domains.base import grade
from ruplar.engine.reference import Generation, generate
from ruplar.engine.sampling import Decoding
from ruplar.errors import TrainingStopped, UserError
from ruplar.methods.base import latent_item
from ruplar.methods.colar import GrpoConfig
from ruplar.methods.colar import Method as CoLaR
from ruplar.model.store import Model
from ruplar.priors.base import rng_of
from ruplar.train.trainer import Validate
from ruplar.types import Batch, Example, Item

CLIP = 0.2
"""The policy ratio is clipped to 1 ± this, as published."""


@dataclass(frozen=True)
class Sampled:
    """One sampled thought with its answer."""

    item: Item  # the sampled sequence; `features` are its latents in units of sigma, labels the tokens the model chose
    right: bool  # whether its answer is correct: a reward of 1, else 0
    advantage: float  # its reward relative to its group
    latents: int


def advantages(rewards: Tensor) -> Tensor:
    """Rewards [Q, G] → advantages: distance from the group mean in standard deviations; 0 if all rewards are equal."""
    spread = rewards.std(1, keepdim=True)
    return (rewards - rewards.mean(1, keepdim=True)) / (spread + 1e-8)


def draw(model: Model, examples: Sequence[Example], config: GrpoConfig, seed: int, number: int) -> list[Sampled]:
    """Sample `config.group` thoughts per question; thoughts of one question are contiguous."""
    backbone, method = model.backbone, cast(CoLaR, model.method)
    prompts = [model.prompt(e.question) for e in examples]
    decoding = Decoding(1.0, seed=seed, max_answer_tokens=config.max_answer_tokens, noise=1.0)
    # random streams are named by seed, round and position in the round
    keys = [number * len(examples) * config.group + i for i in range(len(examples) * config.group)]
    repeated = [prompt for prompt in prompts for _ in range(config.group)]
    found = generate(backbone, method.explorer(backbone), repeated, decoding, keys, keep_latents="embeds")
    right = [_right(model, row, examples[i // config.group]) for i, row in enumerate(found)]
    rewards = torch.tensor(right, dtype=torch.float32).view(len(examples), config.group)
    return [
        Sampled(_item(model, prompt, row), hit, advantage, row.latent_count)
        for prompt, row, hit, advantage in zip(
            repeated, found, right, advantages(rewards).flatten().tolist(), strict=True
        )
    ]


def _right(model: Model, row: Generation, example: Example) -> bool:
    ids = row.answer_ids[:-1] if row.ended else row.answer_ids
    return grade(model.backbone.tokenizer.decode(ids), example.answer, model.domain).correct


def _item(model: Model, prompt: Any, row: Generation) -> Item:
    """Build [ prompt <think> z .. z </think> answer ]; a forced `</think>` is not a choice of the model, so not a label."""
    # differs from the paper: D57. Its code rewards a forced end like a chosen one
    item = latent_item(prompt, model.backbone, row.latent_count, row.answer_ids, halts=row.halted)
    sigma = model.method.config.sigma
    item.features = [np.asarray((z.float() / sigma).cpu()) for z in row.latent_embeds]
    return item


def clipped(new: Tensor, old: Tensor, advantage: Tensor, clip: float) -> Tensor:
    """New and old log-probabilities and advantages, [N] each → the PPO-clipped loss of each choice [N].

    A choice that is already 1 ± clip times as probable, in the direction of its advantage, gets no gradient.
    """
    ratio = (new - old).exp()
    return -torch.minimum(ratio * advantage, ratio.clamp(1 - clip, 1 + clip) * advantage)


def policy_loss(
    new: tuple[Tensor, Tensor], old: tuple[Tensor, Tensor], batch: Batch, advantage: Tensor
) -> dict[str, Tensor]:
    """New and old log-probabilities of latents [M] and labels [T], and the advantage of each row [B] → the loss parts.

    The terms of a thought are averaged, which shortens thoughts.
    """
    rows, width = batch.ids.shape
    parts = {}
    places = {"latent": batch.latent_at, "answer": batch.label_at}
    for (name, at), now, then in zip(places.items(), new, old, strict=True):
        row = at // width
        terms = clipped(now, then, advantage[row], CLIP)
        sums = terms.new_zeros(rows).index_add(0, row, terms)
        counts = terms.new_zeros(rows).index_add(0, row, torch.ones_like(terms))
        parts[name] = (sums / counts.clamp_min(1)).mean()
    return parts


@dataclass
class Reinforcer:
    """Reinforces one model, round by round."""

    model: Model  # the model; its method is CoLaR
    examples: Sequence[Example]
    config: GrpoConfig
    seed: int = 0
    steps: int = 0  # optimizer steps done
    tokens: int = 0  # positions trained on

    def __post_init__(self):
        modules = [self.model.backbone.model, *self.model.method.modules().values()]
        for module in modules:
            module.eval()  # dropout would change the probabilities between sampling and training
        self.trained = [w for module in modules for w in module.parameters() if w.requires_grad]
        self.optimizer = torch.optim.AdamW(self.trained, lr=self.config.learning_rate)

    def round(self, number: int) -> dict[str, float]:
        """Sample, score and learn → the round's metrics, measured on the sampled thoughts."""
        c, rng = self.config, rng_of("grpo", self.seed, number)
        examples = [self.examples[int(i)] for i in rng.integers(len(self.examples), size=c.questions)]
        sampled = draw(self.model, examples, c, self.seed, number)
        accuracy = sum(one.right for one in sampled) / len(sampled)
        latents = sum(one.latents for one in sampled) / len(sampled)
        metrics = {"reward": accuracy, "accuracy": accuracy, "latents": latents}
        # differs from the paper: D57. A group whose answers are all right or all wrong has advantages of 0 and is skipped
        used = [one for one in sampled if one.advantage != 0]
        order = rng.permutation(len(used))
        batches = [[used[i] for i in order[at : at + c.rows]] for at in range(0, len(used), c.rows)]
        old = [self._log_probs(batch) for batch in batches]  # of all batches, before the first step
        losses = [self._learn(batch, then) for batch, then in zip(batches, old, strict=True)]
        for name in ("latent", "answer"):
            metrics[name] = sum(loss[name] for loss in losses) / max(len(losses), 1)
        return {"loss": metrics["latent"] + metrics["answer"], **metrics}

    @torch.no_grad()
    def _log_probs(self, sampled: Sequence[Sampled]) -> tuple[Tensor, Tensor]:
        return cast(CoLaR, self.model.method).policy(self.model.backbone, self._batch(sampled))

    def _batch(self, sampled: Sequence[Sampled]) -> Batch:
        backbone = self.model.backbone
        return collate([one.item for one in sampled], backbone.pad_id).to(backbone.device)

    def _learn(self, sampled: Sequence[Sampled], old: tuple[Tensor, Tensor]) -> dict[str, float]:
        backbone, batch = self.model.backbone, self._batch(sampled)
        advantage = torch.tensor([one.advantage for one in sampled], device=backbone.device)
        new = cast(CoLaR, self.model.method).policy(backbone, batch)
        parts = policy_loss(new, old, batch, advantage)
        self.optimizer.zero_grad()
        sum(parts.values()).backward()  # type: ignore[union-attr]
        torch.nn.utils.clip_grad_norm_(self.trained, 1.0, error_if_nonfinite=True)
        self.optimizer.step()
        self.steps, self.tokens = self.steps + 1, self.tokens + sum(len(one.item.ids) for one in sampled)
        return {name: float(value.detach()) for name, value in parts.items()}


def check_grpo(config: RunConfig, processes: int, initialized: bool) -> None:
    problems = []
    if processes > 1:
        problems.append("the GRPO stage runs in one process. Launch it without accelerate.")
    if not initialized:
        problems.append(
            f"backbone.init: method.grpo starts from a trained model of method '{config.method.name}', its latent head "
            f"included; got {config.backbone.init!r}. Set it to that run, or set method.grpo: null to train one first."
        )
    if problems:
        raise UserError(*problems)


@dataclass
class GrpoStage:
    """All rounds of GRPO, with validation; the model ends with the weights of the best round, or the last without validation."""

    worker: Reinforcer
    validate: Validate | None  # answers the validation questions; None without validation
    args: TrainingArguments  # passed to the callbacks
    callbacks: Sequence[TrainerCallback]  # get the events of a Hugging Face trainer; a step is a round
    best_round: int = 0  # round of the best validation so far; 0 is the start model
    best_accuracy: float = -1.0

    def run(self) -> None:
        grpo, backbone = self.worker.config, self.worker.model.backbone
        self._best: list[Tensor] = []
        self._state, self._control = TrainerState(max_steps=grpo.rounds), TrainerControl()
        every = [DefaultFlowCallback(), *self.callbacks]  # the first ends the training after the last round
        self._handler = CallbackHandler(every, backbone.model, backbone.tokenizer, self.worker.optimizer, None)
        self._call("on_train_begin")
        self._validate()
        while not self._control.should_training_stop:
            self._call("on_step_begin")
            try:
                row = self.worker.round(self._state.global_step + 1)
            except RuntimeError as error:
                if "non-finite" not in str(error):
                    raise
                raise TrainingStopped(
                    f"training stopped: a gradient was not finite in round {self._state.global_step + 1}. Lower "
                    f"method.grpo.learning_rate (now {grpo.learning_rate:.1e}). Nothing was saved."
                ) from error
            self._state.global_step += 1
            self._call("on_step_end")
            self._call("on_log", logs=row | {"learning_rate": grpo.learning_rate})
            if self._state.global_step % grpo.validate_every == 0 or self._control.should_training_stop:
                self._validate()
        with torch.no_grad():
            for weight, best in zip(self.worker.trained, self._best, strict=False):
                weight.copy_(best)
        self._call("on_train_end")

    def _validate(self) -> None:
        if self.validate is None:
            return
        found = self.validate(self.worker.model.backbone, self.worker.model.method)
        metrics = {f"eval_{name}": value for name, value in found.items()}
        self._call("on_log", logs=metrics)
        self._call("on_evaluate", metrics=metrics)
        if found["accuracy"] > self.best_accuracy:
            self.best_round, self.best_accuracy = self._state.global_step, found["accuracy"]
            self._best = [weight.detach().to("cpu", copy=True) for weight in self.worker.trained]

    def _call(self, event: str, **given: Any) -> None:
        self._control = getattr(self._handler, event)(self.args, self._state, self._control, **given)
