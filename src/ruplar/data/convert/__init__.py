"""A data set with prose reasoning → question, chain, answer: by rules, or by a language model behind an endpoint.

source –prose→ Prose –rules | endpoint→ chain –verify→ accepted, or rejected with a reason –journal→ OUTPUT
"""

from ruplar.data.convert.by_model import ByModel
from ruplar.data.convert.endpoint import Endpoint
from ruplar.data.convert.prose import Columns, Prose, read_prose
from ruplar.data.convert.run import ByRules, Outcome, convert
from ruplar.data.convert.verify import ConversionProgress, Rejected, verify

__all__ = [
    "ByModel",
    "ByRules",
    "Columns",
    "Endpoint",
    "Outcome",
    "Prose",
    "Rejected",
    "ConversionProgress",
    "convert",
    "read_prose",
    "verify",
]
