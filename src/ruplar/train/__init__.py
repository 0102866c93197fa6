"""Recipe or dataset → a trained model. The package itself can be called: `ruplar.train("embedded-ruplar", output="runs/mine")`."""

from ruplar import make_callable
from ruplar.io import DATA, METRICS, MODEL, RECIPE, START

__all__ = ["DATA", "METRICS", "MODEL", "RECIPE", "START"]

make_callable(__name__, "ruplar.train.run", "train")
