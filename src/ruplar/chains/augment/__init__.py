"""Chains → problems that tell the same with other numbers: `ruplar data augment`, and `augment:` of a recipe's source."""

from ruplar.chains.augment.run import LARGE, Tally, Variants, build, deal, make_plans

__all__ = ["LARGE", "Tally", "Variants", "build", "deal", "make_plans"]
