"""Chains → augmented chains with resampled numbers: `ruplar data augment`, and `augment:` of a source in a recipe."""

from ruplar.data.augment.run import LARGE, AugmentReport, Variants, build, generate, make_plans

__all__ = ["LARGE", "AugmentReport", "Variants", "build", "generate", "make_plans"]
