"""Adjust the p-values and levels of a family of tests for their number. The order of the tests stays."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from experiments.stats.types import Correction


def adjust(p_values: Sequence[float], correction: Correction) -> Sequence[float]:
    """Return adjusted p-values, each at most 1. Compare each with alpha as if its test were the only one."""
    return holm(p_values) if correction == "holm" else benjamini_hochberg(p_values)


def alphas(p_values: Sequence[float], correction: Correction, alpha: float) -> Sequence[float]:
    """Return the level of each test's interval, as an alpha.

    With this level, an interval excludes 0 exactly if the adjusted p-value is below alpha. Under Holm, the i-th
    smallest of m p-values gets alpha / (m - i + 1). Tests that are not rejected share the level at which the first of
    them failed. Under Benjamini-Hochberg with R rejections, rejected tests get alpha R / m and the others alpha (R + 1)
    / m (Benjamini & Yekutieli 2005, JASA 100:71, for the rejected ones).
    """
    total, adjusted = len(p_values), adjust(p_values, correction)
    rejected = sum(p < alpha for p in adjusted)
    if correction == "benjamini-hochberg":
        within, others = alpha * rejected / max(total, 1), alpha * min(rejected + 1, total) / max(total, 1)
        return [within if p < alpha else others for p in adjusted]
    order = sorted(range(total), key=p_values.__getitem__)
    smallest = [p_values[index] for index in order]
    # Equal p-values share the level of the first of them, so that their order does not matter.
    return _in_place(order, [alpha / (total - min(smallest.index(p), rejected)) for p in smallest])


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
