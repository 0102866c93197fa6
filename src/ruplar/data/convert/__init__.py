"""A data set without symbolic chains → question, chain, answer: by rules, or by a language model behind an endpoint.

source –prose→ Prose –rules | endpoint→ chain –verify→ row kept, or set aside with its reason –journal→ OUTPUT
"""

from ruplar.data.convert.asker import ByModel
from ruplar.data.convert.endpoint import Endpoint
from ruplar.data.convert.prose import Columns, Prose, read_prose
from ruplar.data.convert.run import ByRules, Outcome, convert
from ruplar.data.convert.tally import ConversionProgress
from ruplar.data.convert.verify import Rejected, verify

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
