"""Whether the variants got as many users as their weights say. If not, their users are not comparable."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import chdtrc, gammaln

from experiments.stats.types import Reason, ReasonCode, SampleRatio, Split, Weight

MISMATCH = 0.001
CONCENTRATION = 10_000
NO_USERS = Reason(ReasonCode.TOO_FEW_USERS, "No user was exposed yet.")


def check(variants: Sequence[Weight], users: Mapping[str, int]) -> SampleRatio | Reason:
    """Compare users by variant with the weights, of which one at least is above 0.

    A mismatch is an always-valid p-value below 0.001. Users of a variant with the weight 0 are one, however few.
    """
    return check_phases([Split(variants, users)])


def check_phases(splits: Sequence[Split]) -> SampleRatio | Reason:
    """Compare the users of each phase with its own weights, and judge by the evidence of all phases together.

    Whoever opens a phase may have looked at everything before, and choose its weights by that. Given these, chance
    alone splits its users: its e-value has an expectation of 1 at most, whatever was before. So has the product of
    those of all phases, at every look (Ville's inequality holds of it too), and their logarithms add up. Chi-squares
    of the users of several phases add up with their degrees of freedom, for a single look as ever.
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
    return SampleRatio(expected, _p_of_chi_square(chi_square, freedom), p, p < MISMATCH)


@dataclass(frozen=True, slots=True)
class _Evidence:
    """What the users of one phase say against its weights; without end where some have a variant of weight 0."""

    expected: Mapping[str, float]
    log_e_value: float
    chi_square: float
    freedom: int


def _judge(split: Split) -> _Evidence:
    """Of one user at least."""
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
    """Pearson's test, for a single look. `counts`: one row of users by variant, or many; shares above 0, adding to 1.

    1 for a single variant, which nothing can contradict.
    """
    statistic = _chi_square(counts, shares)
    if len(shares) == 1:
        return np.ones_like(statistic)
    return np.asarray(chdtrc(len(shares) - 1, statistic), float)


def _chi_square(counts: NDArray[np.float64], shares: NDArray[np.float64]) -> NDArray[np.float64]:
    expected = counts.sum(axis=-1, keepdims=True) * shares
    with np.errstate(over="ignore"):  # a variant that should have got next to nobody: p is 0
        return np.asarray(((counts - expected) ** 2 / expected).sum(axis=-1), float)


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
