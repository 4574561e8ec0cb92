"""Adjust the p-values of a family of tests for their number. The order of the p-values stays."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from experiments.stats.types import Correction


def adjust(p_values: Sequence[float], correction: Correction) -> Sequence[float]:
    """Return adjusted p-values, each at most 1. Compare each with alpha as if its test were the only one."""
    return holm(p_values) if correction == "holm" else benjamini_hochberg(p_values)


def holm(p_values: Sequence[float]) -> Sequence[float]:
    """Keep the chance of any false discovery at alpha (Holm 1979, Scandinavian Journal of Statistics 6:65)."""
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    scaled = (min(1.0, p_values[index] * (len(order) - rank)) for rank, index in enumerate(order))
    return _in_place(order, list(accumulate(scaled, max)))


def benjamini_hochberg(p_values: Sequence[float]) -> Sequence[float]:
    """Keep the expected share of false discoveries at alpha (Benjamini & Hochberg 1995, JRSS B 57:289)."""
    order = sorted(range(len(p_values)), key=p_values.__getitem__, reverse=True)
    scaled = (min(1.0, p_values[index] * (len(order) / (len(order) - rank))) for rank, index in enumerate(order))
    return _in_place(order, list(accumulate(scaled, min)))


def _in_place(order: Sequence[int], values: Sequence[float]) -> Sequence[float]:
    return [value for _, value in sorted(zip(order, values, strict=True))]
