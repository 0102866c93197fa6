"""Train on your own chains: rows with a question, steps and an answer → a model that thinks in soft tokens.

About a minute on a CPU.
"""

# %% Your rows: a list of dicts, or a `datasets.Dataset`; `columns=` names other columns.
import random

from ruplar import LatentReasoner, LatentTrainer, TrainConfig

draw = random.Random(7)


def taxi_ride() -> dict:
    """One question, its chain and its answer."""
    base, rate, miles = draw.randint(2, 9), draw.randint(2, 9), draw.randint(2, 20)
    return {
        "question": f"A taxi costs ${base} plus ${rate} per mile. How much does a ride of {miles} miles cost?",
        "steps": [f"{rate}*{miles}={rate * miles}", f"{rate * miles}+{base}={rate * miles + base}"],
        "answer": str(rate * miles + base),
    }


rows = list({row["question"]: row for row in (taxi_ride() for _ in range(900))}.values())
held_out, train = rows[:60], rows[60:]

# %% Train a LoRA adapter on the packaged model. Give `model=` a Hugging Face name or folder for a larger one.
settings = TrainConfig(
    output_dir="runs/taxi",
    backbone={"init": "embedded:ruplar"},
    prompt={"instruction": "", "answer": "{answer}"},  # as this small model was trained
    prior={"name": "mixture", "operand_share": 0.2},
    method_args={"align_weight": 0.0},
    lora={"rank": 16, "alpha": 32},
    per_device_train_batch_size=8,
    max_steps=60,
    learning_rate=2e-3,
    warmup_steps=5,
    save_strategy="no",
)
trainer = LatentTrainer(model="embedded", method="ruplar", train_dataset=train, args=settings)
before = trainer.evaluate(held_out)["eval_accuracy"]
trainer.train(progress=lambda p: print(f"step {p.step}: loss {p.row['loss']:.2f}") if "loss" in p.row else None)
after = trainer.evaluate(held_out)["eval_accuracy"]
print(f"held-out questions answered correctly: {before:.0%} before, {after:.0%} after training")

# %% The saved folder loads anywhere.
reasoner = LatentReasoner.from_pretrained("runs/taxi")
[answer] = reasoner.ask([held_out[0]["question"]], return_latents=True)
print(held_out[0]["question"], "→", [latent.tokens[0] for latent in answer.latents], "→", answer.text)
