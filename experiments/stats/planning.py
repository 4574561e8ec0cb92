"""How many users an experiment needs, and how small an effect its users can show.

Everything is about one treatment and the control. Effects are differences of their means. Guardrails are tested against
their margins, as in the results.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import ceil, copysign, sqrt
from statistics import NormalDist

MIN_USERS = 2
"""The least number of users in each variant: a variance, and so a test, needs two."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """The mean and the standard deviation of one user of the control, in units of the measure.

    Without a standard deviation the measure is a rate: users count as 1 or 0, and the mean (above 0
    and below 1) determines the variance. `reduction` is the share of the variance (0 to below 1) that
    CUPED removes.
    """

    mean: float
    standard_deviation: float | None = None
    reduction: float = 0.0

    @property
    def is_rate(self) -> bool:
        return self.standard_deviation is None

    def variance(self, difference: float = 0.0) -> float:
        """Return the variance of a user whose mean differs from the control's by `difference`, after CUPED."""
        return (1 - self.reduction) * self.raw_variance(difference)

    def raw_variance(self, difference: float = 0.0) -> float:
        """Return the same variance before CUPED."""
        if self.standard_deviation is not None:
            return self.standard_deviation**2
        rate = self.mean + difference
        return rate * (1 - rate)


@dataclass(frozen=True, slots=True)
class Demands:
    """The error rates of a plan: `power` is the chance to find the effect, `alpha` that of a false discovery.

    The treatments share alpha equally (Bonferroni), which is the first step of Holm's correction in
    the results. Guardrails do not share it. `tuning_size` is the number of users at which always-valid
    intervals are narrowest.
    """

    alpha: float = 0.05
    power: float = 0.8
    treatments: int = 1
    tuning_size: float = 5000

    @property
    def level(self) -> float:
        """Return the alpha of each treatment."""
        return self.alpha / self.treatments


@dataclass(frozen=True, slots=True)
class Tolerance:
    """The margin of a guardrail, and the direction that is harmful.

    `relative` is a share of the control's mean, `absolute` an amount in units of the measure. Exactly
    one of them is set.
    """

    relative: float | None = None
    absolute: float | None = None
    is_decrease_good: bool = False

    def ratio(self, mean: float) -> float:
        """Return the ratio of the means at the margin; 1 for an absolute margin, which is a difference."""
        harm = copysign(self.relative or 0.0, mean)
        return 1 + harm if self.is_decrease_good else 1 - harm

    def distance(self, mean: float) -> float:
        """Return how far the margin is from no difference, in units of the measure."""
        return self.absolute if self.relative is None and self.absolute else abs(mean) * (self.relative or 0.0)


@dataclass(frozen=True, slots=True)
class Detectable:
    """The smallest rise of the mean that each test finds with the required power, in units of the measure.

    It is None if not even the largest possible rise is found.
    """

    fixed_horizon: float | None
    always_valid: float | None


def fixed_horizon_users(baseline: Baseline, difference: float, demands: Demands) -> int:
    """Return the users per variant at which a single t-test finds a difference of the means.

    `difference` is in units of the measure, of either sign, and not 0. The answer is at least 2, as
    Welch's test needs. Source: the formula for the normal distribution (statsmodels' NormalIndPower
    with the variances of both variants), plus Guenther's z²/4 for the t-distribution (The American
    Statistician 35, 1981, 243-244). It is within one user of statsmodels' TTestIndPower.
    """
    spread = baseline.variance() + baseline.variance(difference)
    users = ceil(spread * (_fixed_errors(demands) / difference) ** 2 + _shortfall(demands))
    return max(users, MIN_USERS)


def always_valid_users(baseline: Baseline, difference: float, demands: Demands) -> int:
    """Return the users per variant at which the always-valid test finds a difference of the means.

    `difference` is in units of the measure and not 0. The answer is the smallest n at which the half-width of the
    interval plus z(power) standard errors is within the difference. At n users per variant, the interval then excludes
    0 with that power, because the means of so many users are normal. The chance that it has done so at an earlier look
    is at least as large, and mostly it does.
    """
    return tuned_users(baseline, difference, demands, lambda _: demands.tuning_size)


def tuned_users(baseline: Baseline, difference: float, demands: Demands, tuning_size: Callable[[int], float]) -> int:
    """Return the same users per variant if the tuning size follows from them, as it does from a plan.

    `tuning_size` returns it for a number of users per variant. It must not fall as users grow. Tuned to the users of
    both variants, a test takes 2.4 times the users of a single look.
    """
    spread = baseline.variance() + baseline.variance(difference)

    def suffices(users: int) -> bool:
        tuned = replace(demands, tuning_size=tuning_size(users))
        return _always_valid_errors(2 * users, tuned) * sqrt(spread / users) <= abs(difference)

    return _first(suffices)


def fixed_horizon_users_to_be_safe(
    baseline: Baseline, tolerance: Tolerance, demands: Demands, smallest_share: float = 0.5
) -> int:
    """Return the users per variant at which a single look shows a guardrail safe, if there is no difference.

    It does so with the required power. `smallest_share` is the share of users of the smallest variant. Source: for an
    absolute margin, the non-inferiority formula for normal means (Julious, Statistics in Medicine 23, 2004, 1921-1986).
    For a relative margin, that of Hauschke, Kieser, Diletti & Burke (Statistics in Medicine 18, 1999, 93-105) for the
    ratio of two means by Fieller's theorem. Both with Guenther's z²/4 for the t-distribution. The tests are one side of
    two-sided intervals.
    """
    demands = replace(demands, treatments=1)
    errors = sqrt(_squared_error_at_margin(baseline, tolerance, smallest_share)) / tolerance.distance(baseline.mean)
    return max(ceil((_fixed_errors(demands) * errors) ** 2 + _shortfall(demands)), MIN_USERS)


def always_valid_users_to_be_safe(
    baseline: Baseline, tolerance: Tolerance, demands: Demands, smallest_share: float = 0.5
) -> int:
    """Return the users per variant at which the always-valid test shows the same with the same power."""
    demands = replace(demands, treatments=1)
    squared_error = _squared_error_at_margin(baseline, tolerance, smallest_share)
    distance = tolerance.distance(baseline.mean)
    return _first(lambda users: _always_valid_errors(2 * users, demands) * sqrt(squared_error / users) <= distance)


def _squared_error_at_margin(baseline: Baseline, tolerance: Tolerance, smallest_share: float) -> float:
    """Return the squared error of the tested quantity at the margin, for one user per variant.

    The quantity is the treatment's mean less `ratio` times the control's. The last term is the error of the mean over
    all users before their exposure, which CUPED subtracts from both.
    """
    ratio = tolerance.ratio(baseline.mean)
    removed = baseline.reduction * baseline.raw_variance()
    return baseline.variance() * (1 + ratio**2) + removed * (ratio - 1) ** 2 * smallest_share


def detectable(baseline: Baseline, control_users: float, treatment_users: float, demands: Demands) -> Detectable:
    """Return the smallest effects that these users can show: the inverse of the functions above."""
    if min(control_users, treatment_users) < MIN_USERS:
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
    """Return the rise that equals `errors` standard errors; None if the rate would reach 1.

    The standard error of a rate depends on the rise. So this solves rise² = errors² (v / control_users + v(rise) /
    treatment_users), with the variance v(rise) after the rise.
    """
    at_once = errors**2 * baseline.variance() * (1 / control_users + 1 / treatment_users)
    if not baseline.is_rate:
        return sqrt(at_once)
    share = errors**2 * (1 - baseline.reduction) / treatment_users
    slope = share * (1 - 2 * baseline.mean) / 2
    rise = (slope + sqrt(slope**2 + (1 + share) * at_once)) / (1 + share)
    return rise if baseline.mean + rise < 1 else None


def _fixed_errors(demands: Demands) -> float:
    """Return how many standard errors an effect must have for the fixed-horizon test to find it."""
    return -_quantile(demands.level / 2) + _quantile(demands.power)


def _always_valid_errors(users: float, demands: Demands) -> float:
    """Return the same for the always-valid test, at `users` of both variants together."""
    from experiments.stats.sequential import half_width  # noqa: PLC0415 (NumPy costs memory that not every worker needs)

    tuning = {"tuning_size": demands.tuning_size, "alpha": demands.alpha}
    return float(half_width(1.0, users, **tuning, comparisons=demands.treatments)) + _quantile(demands.power)


def _shortfall(demands: Demands) -> float:
    """Return the additional users per variant that the t-distribution needs (Guenther's z²/4)."""
    return _quantile(demands.level / 2) ** 2 / 4


def _quantile(probability: float) -> float:
    return NormalDist().inv_cdf(probability)


def _first(suffices: Callable[[int], bool]) -> int:
    """Return the smallest number of users that suffices. Every greater number must suffice too."""
    high = MIN_USERS
    while not suffices(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if suffices(middle) else (middle, high)
    return high
