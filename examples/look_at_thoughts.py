"""Look at thoughts: the soft tokens between question and answer, as distributions over words.

A few seconds on a CPU.
"""

# %% A soft token is a mixture of token embeddings; `return_latents` shows its likeliest tokens.
from ruplar import LatentReasoner
from ruplar.data.sources import generator
from ruplar.evaluate import ablate

reasoner = LatentReasoner.from_pretrained("embedded")
question = "Tom has 3 boxes with 12 pencils each. He gives 10 pencils to Anna. How many pencils does he have left?"
[answer] = reasoner.ask([question], return_latents=True)
print(question)
for number, latent in enumerate(answer.latents, start=1):
    mixture = "  ".join(f"{token.strip()} {p:.2f}" for token, p in zip(latent.tokens[:3], latent.probs, strict=False))
    print(f"  soft token {number}: {mixture}   entropy {latent.entropy:.2f}   P(halt) {latent.halt:.2f}")
print(f"  answer {answer.text}, after {answer.forwards} forward passes")

# %% Does the answer depend on them? Replace the soft tokens and ask again.
problems = list(generator("arithmetic")(20, seed=5))
for row in ablate.ablate(reasoner, problems):
    print(f"{row.mode:12s} {row.result.correct} of {row.result.n} correct")
