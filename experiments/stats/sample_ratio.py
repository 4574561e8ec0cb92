"""Whether the variants got as many users as their weights say. If not, their users are not comparable."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import chdtrc, gammaln

from experiments.stats.types import Reason, ReasonCode, SampleRatio, Weight

MISMATCH = 0.001
CONCENTRATION = 10_000
NO_USERS = Reason(ReasonCode.TOO_FEW_USERS, "No user was exposed yet.")


def check(variants: Sequence[Weight], users: Mapping[str, int]) -> SampleRatio | Reason:
    """Compare users by variant with the weights, of which one at least is above 0.

    A mismatch is an always-valid p-value below 0.001. Users of a variant with the weight 0 are one, however few.
    """
    total = sum(users.get(variant.key, 0) for variant in variants)
    if not total:
        return NO_USERS
    largest = max(variant.weight for variant in variants)
    weights = [variant.weight / largest for variant in variants]
    shares = [weight / math.fsum(weights) for weight in weights]
    expected = {variant.key: total * share for variant, share in zip(variants, shares, strict=True)}
    split = [(users.get(variant.key, 0), share) for variant, share in zip(variants, shares, strict=True)]
    if any(count for count, share in split if not share):
        return SampleRatio(expected, 0.0, 0.0, is_mismatch=True)
    counts, chances = np.array([pair for pair in split if pair[1]], float).T
    p = math.exp(min(0.0, -float(log_e_value(counts, chances))))
    return SampleRatio(expected, float(chi_square_p(counts, chances)), p, p < MISMATCH)


def chi_square_p(counts: NDArray[np.float64], shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Pearson's test, for a single look. `counts`: one row of users by variant, or many; shares above 0, adding to 1.

    1 for a single variant, which nothing can contradict.
    """
    expected = counts.sum(axis=-1, keepdims=True) * shares
    with np.errstate(over="ignore"):  # a variant that should have got next to nobody: p is 0
        statistic = ((counts - expected) ** 2 / expected).sum(axis=-1)
    if len(shares) == 1:
        return np.ones_like(statistic)
    return np.asarray(chdtrc(len(shares) - 1, statistic), float)


def log_e_value(counts: NDArray[np.float64], shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """The logarithm of the evidence against the weights, which may be looked at any time: p = min(1, 1 / e).

    The Bayes factor of multinomial counts under a Dirichlet prior against the weights (Lindon & Malek 2022,
    "Anytime-Valid Inference for Multinomial Count Data"), here under a mixture of two such priors in equal parts, which
    is a prior as well: a flat one notices a gross mismatch among some hundred users, and one concentrated on the
    weights a slight one among millions. `counts` and `shares` as above.
    """
    flat = _log_bayes_factor(counts, shares, np.ones_like(shares))
    concentrated = _log_bayes_factor(counts, shares, CONCENTRATION * shares)
    return np.asarray(np.logaddexp(flat, concentrated) - math.log(2), float)


def _log_bayes_factor(counts: NDArray[np.float64], shares: NDArray[np.float64], prior: ArrayLike) -> ArrayLike:
    prior = np.asarray(prior)
    total, strength = counts.sum(axis=-1), prior.sum()
    marginal = gammaln(strength) - gammaln(strength + total) + (gammaln(prior + counts) - gammaln(prior)).sum(axis=-1)
    return np.asarray(marginal - (counts * np.log(shares)).sum(axis=-1), float)
