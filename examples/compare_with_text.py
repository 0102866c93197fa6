"""Compare with text: the same questions answered with soft tokens, with a written chain, and directly.

About half a minute on a CPU.
"""

# %% Three packaged models with 5M parameters, trained on the same problems.
from ruplar import evaluate

MODELS = {
    "soft tokens (RuPLaR)": "embedded:ruplar",
    "written chain (CoT)": "embedded:cot",
    "direct answer (No-CoT)": "embedded:no_cot",
}

# %% `on` also takes your own file or a benchmark's name.
print(f"{'method':24s} {'accuracy':>8s} {'reasoning tokens':>17s} {'forward passes':>15s}")
for name, model in MODELS.items():
    [result] = evaluate(model, "word-problems", limit=60).results
    print(f"{name:24s} {result.accuracy:7.1f}% {result.latents:17.1f} {result.forwards:15.1f}")
