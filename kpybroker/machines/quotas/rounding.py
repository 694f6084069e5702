"""Rounding as Java's ``Math.round`` does it: half up."""

from math import floor, inf, isnan


def rounded(value: float) -> int:
    """The nearest integer; 0 for what is no number. An infinite value becomes Java's largest long."""
    if isnan(value):
        return 0
    if value in (inf, -inf):
        return 2**63 - 1 if value > 0 else -(2**63)
    return floor(value + 0.5)
