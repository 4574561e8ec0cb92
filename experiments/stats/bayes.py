"""The chance that a treatment beats control, and what one loses on average by choosing it if it does not."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, betaincc, betainccinv, betaincinv, betaln, ndtr, xlog1py, xlogy

NODES, WEIGHTS = np.polynomial.legendre.leggauss(96)
TAIL = 1e-30  # of the narrower posterior, left out on either side


@dataclass(frozen=True, slots=True)
class Choice:
    """`chance_to_beat`: 0 to 1. `expected_loss`: in units of the measure, 0 or more."""

    chance_to_beat: float
    expected_loss: float


@dataclass(frozen=True, slots=True)
class Beta:
    """What is known of a share: Beta(1 + conversions, 1 + the others), after a flat prior."""

    a: float
    b: float

    @classmethod
    def after(cls, positive: float, n: int) -> Beta:
        return cls(1 + positive, 1 + n - positive)

    @property
    def mean(self) -> float:
        return self.a / (self.a + self.b)

    @property
    def variance(self) -> float:
        return self.mean * (1 - self.mean) / (self.a + self.b + 1)

    def of_the_others(self) -> Beta:
        """What is known of 1 less the share."""
        return Beta(self.b, self.a)

    def density(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        log = xlogy(self.a - 1, x) + xlog1py(self.b - 1, -x) - betaln(self.a, self.b)
        return np.asarray(np.exp(log), float)


def choose_share(treatment: Beta, control: Beta, *, is_decrease_good: bool) -> Choice:
    """Of two independent shares: exact but for the rounding of a quadrature, which is below 1e-10."""
    return (
        _choose_larger(control, treatment)
        if not is_decrease_good
        else _choose_larger(control.of_the_others(), treatment.of_the_others())
    )


def choose_mean(difference: float, standard_error: float, *, is_decrease_good: bool) -> Choice:
    """Of two means whose difference, treatment less control, is normal around its estimate (a flat prior)."""
    gain = -difference if is_decrease_good else difference
    z = gain / standard_error
    loss = standard_error * math.exp(-z * z / 2) / math.sqrt(2 * math.pi) - gain * float(ndtr(-z))
    return Choice(float(ndtr(z)), max(0.0, loss))


def _choose_larger(control: Beta, treatment: Beta) -> Choice:
    """Choose the treatment where larger is better: P(treatment > control) and E[max(0, control - treatment)].

    The integral runs over the narrower posterior, of x; given x, both have a closed form in the other one.
    """
    if treatment.variance < control.variance:
        control, treatment = treatment.of_the_others(), control.of_the_others()
    lower = float(betaincinv(control.a, control.b, TAIL))
    upper = float(betainccinv(control.a, control.b, TAIL))
    x = lower + (upper - lower) / 2 * (NODES + 1)
    mass = WEIGHTS * control.density(x)
    mass /= mass.sum()  # which also takes out what the density of a million users owes to rounding
    chance = mass @ betaincc(treatment.a, treatment.b, x)
    # E[max(0, x - T)] for T ~ Beta(a, b): (x - mean) P(T < x) + x (1 - x) density(x) / (a + b).
    loss = (x - treatment.mean) * betainc(treatment.a, treatment.b, x)
    loss += x * (1 - x) * treatment.density(x) / (treatment.a + treatment.b)
    return Choice(min(1.0, float(chance)), max(0.0, float(mass @ loss)))
