"""The correction for the winner's curse: what is left of the effects of finished experiments, on average.

Variants are shipped because their measured effect is large. A measured effect is the true effect plus chance. So the
effects of shipped variants are too large on average, the more so the fewer users they had. The correction learns from
all finished experiments of a metric how large true effects are, and moves each measured effect towards 0. Experiments
with few users move further. The answer does not depend on which effects were chosen, nor on when the experiments were
stopped, as long as all finished ones are counted.

The model, for effect i with the measured value x_i and its standard error s_i, both of ln(1 + lift):

x_i ~ Normal(theta_i, s_i) theta_i ~ Normal(0, tau) tau ~ half-Cauchy(SCALE)

With b_i = s_i^2 / (s_i^2 + tau^2), given tau:

theta_i ~ Normal((1 - b_i) x_i, sqrt((1 - b_i)) s_i) p(tau) ~ prior(tau) * prod(Normal(x_i; 0, sqrt(s_i^2 + tau^2)))

The true effects have the mean 0, and not one that is learned. A learned mean would make an effect that is smaller than
the others larger, which is no correction for a winner's curse. So a corrected effect is always between 0 and the
measured one.

The answer is averaged over tau, so that intervals show how little a few experiments teach of it. The source is chapter
5 of Gelman and others 2013, Bayesian Data Analysis, third edition, and for the prior of tau Gelman 2006. Logarithms
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
        likelihood = (np.log(weights) - weights * np.square(self._measured)).sum(axis=1) / 2
        self._probabilities = np.exp(likelihood - likelihood.max())
        self._probabilities /= self._probabilities.sum()
        self._shrinkage = self._variances * weights

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
        kept = 1 - self._shrinkage[:, index]
        means = (kept * self._measured[index]).mean(axis=1)
        errors = np.sqrt((kept * self._variances[index]).sum(axis=1)) / number
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
