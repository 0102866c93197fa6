"""A model and benchmarks → scores with intervals, samples and records. Callable: `ruplar.evaluate(model, on="gsm8k-test")`."""

from ruplar import make_callable

make_callable(__name__, "ruplar.evaluate.benchmark", "evaluate")
