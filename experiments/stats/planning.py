"""How many users an experiment needs, and how small an effect its users can show.

All of it is about one treatment against control, by the difference of their means, as the results test it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, sqrt
from statistics import NormalDist

FEWEST_USERS = 2
"""In each variant: without a second one nobody knows how much users differ, and no test can be made."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """What one user of the control gives: the mean and the standard deviation of a measure.

    Without the latter it is a rate: users who count as 1 or 0, of which the mean (above 0, below 1) says all.
    """

    mean: float
    standard_deviation: float | None = None

    @property
    def is_rate(self) -> bool:
        return self.standard_deviation is None

    def variance(self, difference: float = 0.0) -> float:
        """The variance of one user whose mean differs by so much from the control's."""
        if self.standard_deviation is not None:
            return self.standard_deviation**2
        rate = self.mean + difference
        return rate * (1 - rate)


@dataclass(frozen=True, slots=True)
class Demands:
    """What a plan has to keep: `power` to find the effect, at most `alpha` to find one where there is none.

    Alpha is shared equally between the treatments (Bonferroni), which is where Holm's correction of the results begins.
    `tuning_size` is the number of users at which always-valid intervals are narrowest.
    """

    alpha: float = 0.05
    power: float = 0.8
    treatments: int = 1
    tuning_size: int = 5000

    @property
    def level(self) -> float:
        """The alpha of each treatment."""
        return self.alpha / self.treatments


@dataclass(frozen=True, slots=True)
class Detectable:
    """The smallest rise of the mean that is found with the power asked for; None: not even the greatest possible."""

    fixed_horizon: float | None
    always_valid: float | None


def fixed_horizon_users(baseline: Baseline, difference: float, demands: Demands) -> int:
    """Users per variant at which the t-test, done once, finds a difference of the means (not 0, of either sign).

    Source: the formula for the normal distribution (statsmodels' NormalIndPower with the variances of both variants),
    and Guenther's z²/4 for what the t-distribution needs more (The American Statistician 35, 1981, 243-244). It is
    within one user of statsmodels' TTestIndPower. At least 2, as which Welch's test needs.
    """
    spread = baseline.variance() + baseline.variance(difference)
    users = ceil(spread * (_fixed_errors(demands) / difference) ** 2 + _shortfall(demands))
    return max(users, FEWEST_USERS)


def always_valid_users(baseline: Baseline, difference: float, demands: Demands) -> int:
    """Users per variant at which somebody who may look at any time finds a difference of the means (not 0).

    The smallest n for which the half-width of the always-valid interval, and a margin of z(power) standard errors, are
    within the difference. At n users per variant the interval then excludes 0 with that power (for means of so many
    users, which are normal); to have excluded it at some look until then is at least as likely, and mostly it is
    earlier.
    """
    spread = baseline.variance() + baseline.variance(difference)
    return _first(lambda users: _always_valid_errors(2 * users, demands) * sqrt(spread / users) <= abs(difference))


def detectable(baseline: Baseline, control_users: float, treatment_users: float, demands: Demands) -> Detectable:
    """What the users of a treatment and of control can show: the reverse of the two functions above."""
    if min(control_users, treatment_users) < FEWEST_USERS:
        return Detectable(None, None)
    harmonic = 2 / (1 / control_users + 1 / treatment_users)
    rest = harmonic - _shortfall(demands)
    fixed = _fixed_errors(demands) * sqrt(harmonic / rest) if rest > 0 else None
    always_valid = _always_valid_errors(control_users + treatment_users, demands)
    return Detectable(
        fixed_horizon=None if fixed is None else _rise(baseline, fixed, control_users, treatment_users),
        always_valid=_rise(baseline, always_valid, control_users, treatment_users),
    )


def _rise(baseline: Baseline, errors: float, control_users: float, treatment_users: float) -> float | None:
    """The rise that is so many standard errors, each of which depends on the rise where it is that of a rate.

    It solves rise² = errors² (v / control_users + v(rise) / treatment_users), v(rise) being the variance after it.
    """
    at_once = errors**2 * baseline.variance() * (1 / control_users + 1 / treatment_users)
    if not baseline.is_rate:
        return sqrt(at_once)
    share = errors**2 / treatment_users
    slope = share * (1 - 2 * baseline.mean) / 2
    rise = (slope + sqrt(slope**2 + (1 + share) * at_once)) / (1 + share)
    return rise if baseline.mean + rise < 1 else None


def _fixed_errors(demands: Demands) -> float:
    """How many standard errors an effect has to be for the fixed-horizon test."""
    return -_quantile(demands.level / 2) + _quantile(demands.power)


def _always_valid_errors(users: float, demands: Demands) -> float:
    """The same for the always-valid one, at so many users of both variants together."""
    from experiments.stats.sequential import half_width  # noqa: PLC0415 (NumPy costs memory that not every worker needs)

    tuning = {"tuning_size": demands.tuning_size, "alpha": demands.alpha}
    return float(half_width(1.0, users, **tuning, comparisons=demands.treatments)) + _quantile(demands.power)


def _shortfall(demands: Demands) -> float:
    """The users per variant that are lost on estimating the variance."""
    return _quantile(demands.level / 2) ** 2 / 4


def _quantile(probability: float) -> float:
    return NormalDist().inv_cdf(probability)


def _first(suffices: Callable[[int], bool]) -> int:
    """The smallest number of users that suffices, where all greater ones do so, too."""
    high = FEWEST_USERS
    while not suffices(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if suffices(middle) else (middle, high)
    return high
