"""Recipe or dataset → a trained model. The package itself can be called: `ruplar.train("embedded-ruplar", output="runs/mine")`.

Files of a run folder: `RECIPE` the whole config, `METRICS` the curve, `START` a hash of the start weights, `MODEL` the model.
"""

from ruplar import make_callable

RECIPE, METRICS, START, MODEL = "recipe.yaml", "metrics.jsonl", "start.json", "model"

make_callable(__name__, "ruplar.train.run", "train")
