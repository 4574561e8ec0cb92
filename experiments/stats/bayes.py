"""The probability that a treatment beats the control, and the expected loss of choosing it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, betaincc, betainccinv, betaincinv, betaln, ndtr, xlog1py, xlogy

NODES, WEIGHTS = np.polynomial.legendre.leggauss(96)
TAIL = 1e-30  # probability of the narrower posterior that the integral leaves out on either side


@dataclass(frozen=True, slots=True)
class Choice:
    """What choosing the treatment means: `chance_to_beat` (0 to 1), and `expected_loss` (0 or more, in units of the
    measure).
    """

    chance_to_beat: float
    expected_loss: float


@dataclass(frozen=True, slots=True)
class Beta:
    """The posterior of a share after a flat prior: Beta(1 + conversions, 1 + other users)."""

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

    def complement(self) -> Beta:
        """Return the posterior of 1 minus the share."""
        return Beta(self.b, self.a)

    def density(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        log = xlogy(self.a - 1, x) + xlog1py(self.b - 1, -x) - betaln(self.a, self.b)
        return np.asarray(np.exp(log), float)


def choose_share(treatment: Beta, control: Beta, *, is_decrease_good: bool) -> Choice:
    """Compare two independent shares. The result is exact except for quadrature error below 1e-10."""
    return (
        _choose_larger(control, treatment)
        if not is_decrease_good
        else _choose_larger(control.complement(), treatment.complement())
    )


def choose_mean(difference: float, standard_error: float, *, is_decrease_good: bool) -> Choice:
    """Compare two means by their `difference`, treatment minus control, in units of the measure.

    With a flat prior, the true difference is normal around its estimate.
    """
    gain = -difference if is_decrease_good else difference
    if standard_error == 0:
        return Choice((1 + (gain > 0) - (gain < 0)) / 2, max(0.0, -gain))
    z = gain / standard_error
    loss = standard_error * math.exp(-z * z / 2) / math.sqrt(2 * math.pi) - gain * float(ndtr(-z))
    return Choice(float(ndtr(z)), max(0.0, loss))


def _choose_larger(control: Beta, treatment: Beta) -> Choice:
    """Return P(treatment > control) and E[max(0, control - treatment)], where larger is better.

    The integral runs over x, the narrower of the two posteriors. Given x, both numbers have a closed
    form in the other posterior.
    """
    if treatment.variance < control.variance:
        control, treatment = treatment.complement(), control.complement()
    lower = float(betaincinv(control.a, control.b, TAIL))
    upper = float(betainccinv(control.a, control.b, TAIL))
    x = lower + (upper - lower) / 2 * (NODES + 1)
    mass = WEIGHTS * control.density(x)
    mass /= mass.sum()  # this also removes the rounding error in the density of a million users
    chance = mass @ betaincc(treatment.a, treatment.b, x)
    # E[max(0, x - T)] for T ~ Beta(a, b): (x - mean) P(T < x) + x (1 - x) density(x) / (a + b).
    loss = (x - treatment.mean) * betainc(treatment.a, treatment.b, x)
    loss += x * (1 - x) * treatment.density(x) / (treatment.a + treatment.b)
    return Choice(min(1.0, float(chance)), max(0.0, float(mass @ loss)))
