"""A data set without symbolic chains → question, chain, answer: by rules, or by a language model behind an endpoint.

source –prose→ Prose –rules | endpoint→ chain –verify→ row kept, or set aside with its reason –journal→ OUTPUT
"""

from ruplar.chains.convert.asker import ByModel
from ruplar.chains.convert.endpoint import Endpoint
from ruplar.chains.convert.prose import Columns, Prose, read_prose
from ruplar.chains.convert.run import ByRules, Outcome, convert
from ruplar.chains.convert.tally import Tally
from ruplar.chains.convert.verify import Rejected, verify

__all__ = [
    "ByModel",
    "ByRules",
    "Columns",
    "Endpoint",
    "Outcome",
    "Prose",
    "Rejected",
    "Tally",
    "convert",
    "read_prose",
    "verify",
]
