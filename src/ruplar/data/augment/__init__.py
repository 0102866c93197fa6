"""Chains → problems that tell the same with other numbers: `ruplar data augment`, and `augment:` of a recipe's source."""

from ruplar.data.augment.run import LARGE, AugmentReport, Variants, build, deal, make_plans

__all__ = ["LARGE", "AugmentReport", "Variants", "build", "deal", "make_plans"]
