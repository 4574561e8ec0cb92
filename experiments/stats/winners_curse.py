"""The correction for the winner's curse: what is left of the effects of finished experiments, on average.

Variants are shipped because their measured effect is large. A measured effect is the true effect plus chance. So the
effects of shipped variants are too large on average, the more so the fewer users they had. The correction learns from
all finished experiments of a metric how large true effects are, and moves each measured effect towards their average.
Experiments with few users move further. The answer does not depend on which effects were chosen, nor on when the
experiments were stopped, as long as all finished ones are counted.

The model, for effect i with the measured value x_i and its standard error s_i, both of ln(1 + lift):

x_i ~ Normal(theta_i, s_i) theta_i ~ Normal(mu, tau) mu ~ flat tau ~ half-Cauchy(SCALE)

With w_i = 1 / (s_i^2 + tau^2), b_i = s_i^2 w_i, m = sum(w_i x_i) / sum(w_i) and v = 1 / sum(w_i), given tau:

theta_i ~ Normal(b_i m + (1 - b_i) x_i, sqrt((1 - b_i) s_i^2 + b_i^2 v)) p(tau) ~ prior(tau) * sqrt(v * prod(w_i)) *
exp(-sum(w_i (x_i - m)^2) / 2)

The answer is averaged over tau, so that intervals show how little a few experiments teach of it. The source is section
5.4 of Gelman and others 2013, Bayesian Data Analysis, third edition, and for the prior of tau Gelman 2006. Logarithms
make -50 % and +100 % the same distance from no effect. Lifts have no unit, so all metrics share one scale.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import ndtr

from experiments.stats.lifts import MIN_EFFECTS, Z_95, Lift, MeasuredEffect

SCALE = 0.1
"""The scale of the prior of tau: without any effects, tau is below it with a chance of one half."""
_GRID = 1000
_HALVINGS = 40


class Portfolio:
    """The effects of all finished experiments on one metric."""

    def __init__(self, effects: Sequence[MeasuredEffect]) -> None:
        """Compute the distribution of tau and, for each tau, that of every true effect."""
        self._measured = np.log1p([effect.lift for effect in effects])
        self._variances = np.square([effect.log_error for effect in effects])
        if not self.is_correctable:
            return
        # The quantiles of the prior, each with the same weight, so that only the likelihood is left to weigh them.
        tau = SCALE * np.tan(np.pi / 2 * (np.arange(_GRID) + 0.5) / _GRID)
        weights = 1 / (self._variances + np.square(tau)[:, None])
        variance = 1 / weights.sum(axis=1)
        mean = variance * (weights @ self._measured)
        deviations = (weights * np.square(self._measured - mean[:, None])).sum(axis=1)
        likelihood = (np.log(variance) + np.log(weights).sum(axis=1) - deviations) / 2
        self._probabilities = np.exp(likelihood - likelihood.max())
        self._probabilities /= self._probabilities.sum()
        self._shrinkage = self._variances * weights
        self._means = self._shrinkage * mean[:, None] + (1 - self._shrinkage) * self._measured
        self._variance = variance

    @property
    def is_correctable(self) -> bool:
        return len(self._measured) >= MIN_EFFECTS

    def measured(self, chosen: Sequence[int]) -> Lift:
        """Return the geometric average of some measured effects, as if chance had not chosen them."""
        error = np.sqrt(self._variances[list(chosen)].sum()) / len(chosen)
        mean = self._measured[list(chosen)].mean()
        return _lift(mean, mean - Z_95 * error, mean + Z_95 * error)

    def corrected(self, chosen: Sequence[int]) -> Lift | None:
        """Return the average of some true effects; None if there are too few effects to learn from."""
        if not self.is_correctable:
            return None
        index, number = list(chosen), len(chosen)
        shrinkage = self._shrinkage[:, index]
        own = ((1 - shrinkage) * self._variances[index]).sum(axis=1)
        shared = np.square(shrinkage.sum(axis=1)) * self._variance
        means, errors = self._means[:, index].mean(axis=1), np.sqrt(own + shared) / number
        estimate = float(self._probabilities @ means)
        return _lift(estimate, self._quantile(means, errors, 0.025), self._quantile(means, errors, 0.975))

    def _quantile(self, means: Any, errors: Any, probability: float) -> float:
        """Return a quantile of the mixture of normal distributions over tau, by halving an interval."""
        lower, upper = float((means - 10 * errors).min()), float((means + 10 * errors).max())
        for _ in range(_HALVINGS):
            middle = (lower + upper) / 2
            below = self._probabilities @ ndtr((middle - means) / errors)
            lower, upper = (middle, upper) if below < probability else (lower, middle)
        return (lower + upper) / 2


def _lift(estimate: float, lower: float, upper: float) -> Lift:
    return Lift(*(float(np.expm1(value)) for value in (estimate, lower, upper)))
