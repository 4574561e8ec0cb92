"""The check for a sample ratio mismatch (SRM): whether users are split by the weights.

If not, the variants cannot be compared.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import chdtrc, gammaln

from experiments.stats.outcomes import SampleRatio
from experiments.stats.types import Reason, ReasonCode, Split, Weight

MISMATCH = 0.001
"""A mismatch is a p-value below this."""
CONCENTRATION = 10_000
"""The strength of the prior that is concentrated on the weights, in users."""
NO_USERS = Reason(ReasonCode.TOO_FEW_USERS, "No user has been exposed yet.")


def check(variants: Sequence[Weight], users: Mapping[str, int]) -> SampleRatio | Reason:
    """Compare the users by variant key with the weights, at least one of which is above 0.

    A mismatch is an always-valid p-value below 0.001. Any user of a variant with weight 0 is a mismatch.
    """
    return check_phases([Split(variants, users)])


def check_phases(splits: Sequence[Split], *, is_single_look: bool = False) -> SampleRatio | Reason:
    """Compare the users of each phase with its own weights, and combine the evidence of all phases.

    The weights of a phase may have been chosen after looking at all the data before it. Given these
    weights, its users are split by chance alone, so the e-value of the phase has an expectation of
    at most 1, whatever happened before. The product of the e-values of all phases therefore has an
    expectation of at most 1 at every look, and Ville's inequality holds for it. Their logarithms add
    up. The chi-square statistics of the phases add up too, with their degrees of freedom; that test
    is valid for a single look only. It decides with `is_single_look`.
    """
    by_phase = [_judge(split) for split in splits if any(split.users.get(variant.key, 0) for variant in split.variants)]
    if not by_phase:
        return NO_USERS
    expected = {
        key: math.fsum(evidence.expected.get(key, 0.0) for evidence in by_phase) for key in by_phase[-1].expected
    }
    p = math.exp(min(0.0, -sum(evidence.log_e_value for evidence in by_phase)))
    chi_square, freedom = (
        sum(evidence.chi_square for evidence in by_phase),
        sum(evidence.freedom for evidence in by_phase),
    )
    pearson = _p_of_chi_square(chi_square, freedom)
    return SampleRatio(expected, pearson, p, (pearson if is_single_look else p) < MISMATCH)


@dataclass(frozen=True, slots=True)
class _Evidence:
    """The evidence of a phase against its weights. It is infinite if a variant of weight 0 has users."""

    expected: Mapping[str, float]
    log_e_value: float
    chi_square: float
    freedom: int


def _judge(split: Split) -> _Evidence:
    """Return the evidence of a phase with at least one user."""
    total = sum(split.users.get(variant.key, 0) for variant in split.variants)
    largest = max(variant.weight for variant in split.variants)
    weights = [variant.weight / largest for variant in split.variants]
    shares = [weight / math.fsum(weights) for weight in weights]
    expected = {variant.key: total * share for variant, share in zip(split.variants, shares, strict=True)}
    pairs = [(split.users.get(key, 0), share) for key, share in zip(expected, shares, strict=True)]
    if any(count for count, share in pairs if not share):
        return _Evidence(expected, math.inf, math.inf, len(pairs) - 1)
    counts, chances = np.array([pair for pair in pairs if pair[1]], float).T
    evidence = float(log_e_value(counts, chances)), float(_chi_square(counts, chances)), len(chances) - 1
    return _Evidence(expected, *evidence)


def _p_of_chi_square(statistic: float, freedom: int) -> float:
    return float(chdtrc(freedom, statistic)) if freedom else 1.0


def chi_square_p(counts: NDArray[np.float64], shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the p-value of Pearson's test, which is valid for a single look.

    `counts` is one row of users by variant, or many rows: the last axis is that of the variants.
    `shares` are above 0 and add up to 1. The p-value is 1 for a single variant, which nothing can
    contradict.
    """
    statistic = _chi_square(counts, shares)
    if len(shares) == 1:
        return np.ones_like(statistic)
    return np.asarray(chdtrc(len(shares) - 1, statistic), float)


def _chi_square(counts: NDArray[np.float64], shares: NDArray[np.float64]) -> NDArray[np.float64]:
    expected = counts.sum(axis=-1, keepdims=True) * shares
    with np.errstate(over="ignore"):  # overflows if a variant should have almost no users; p is then 0
        return np.asarray(((counts - expected) ** 2 / expected).sum(axis=-1), float)


def log_e_value(counts: NDArray[np.float64], shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the logarithm of the e-value against the weights, which is valid at every look.

    The always-valid p-value is min(1, 1 / e). The e-value is the Bayes factor of multinomial counts
    under a Dirichlet prior against the weights (Lindon & Malek 2022, "Anytime-Valid Inference for
    Multinomial Count Data"). The prior is an equal mixture of two Dirichlet priors, which is a prior
    as well. The flat one detects a gross mismatch among some hundred users. The one that is
    concentrated on the weights detects a slight mismatch among millions. `counts` and `shares` are
    as in `chi_square_p`.
    """
    flat = _log_bayes_factor(counts, shares, np.ones_like(shares))
    concentrated = _log_bayes_factor(counts, shares, CONCENTRATION * shares)
    return np.asarray(np.logaddexp(flat, concentrated) - math.log(2), float)


def _log_bayes_factor(counts: NDArray[np.float64], shares: NDArray[np.float64], prior: ArrayLike) -> ArrayLike:
    prior = np.asarray(prior)
    total, strength = counts.sum(axis=-1), prior.sum()
    marginal = gammaln(strength) - gammaln(strength + total) + (gammaln(prior + counts) - gammaln(prior)).sum(axis=-1)
    return np.asarray(marginal - (counts * np.log(shares)).sum(axis=-1), float)
