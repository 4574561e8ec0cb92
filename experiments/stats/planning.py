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

    The treatments share alpha equally (Bonferroni), which is the first step of Holm's correction in the results.
    Guardrails do not share it. `is_planned` says that the boundary of the always-valid test follows from the plan.
    Otherwise, it is that of the mixture, which is narrowest at `tuning_size` users.
    """

    alpha: float = 0.05
    power: float = 0.8
    treatments: int = 1
    tuning_size: float = 5000
    is_planned: bool = False

    @property
    def level(self) -> float:
        """Return the alpha of each treatment."""
        return self.alpha / self.treatments


@dataclass(frozen=True, slots=True)
class Shares:
    """The shares of a treatment and the control among the users of all variants."""

    treatment: float = 0.5
    control: float = 0.5

    @property
    def both(self) -> float:
        return self.treatment + self.control

    def squared_error(self, of_treatment: float, of_control: float) -> float:
        """Return the squared error of a difference for one user of all variants, from the variances of a user."""
        return of_treatment / self.treatment + of_control / self.control

    def least(self) -> int:
        """Return the fewest users of all variants with which both can have a variance."""
        return ceil(MIN_USERS / min(self.treatment, self.control))


EVEN = Shares()


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


def fixed_horizon_users(baseline: Baseline, difference: float, demands: Demands, shares: Shares = EVEN) -> int:
    """Return the users of all variants at which the test for a single look finds a difference of the means.

    `difference` is in units of the measure, of either sign, and not 0. Source: the formula for the normal distribution
    (statsmodels' NormalIndPower) with the variances of both variants. Shares are tested by the normal quantile. For
    means, Guenther's z²/4 for the t-distribution (The American Statistician 35, 1981, 243-244) is added, with
    Satterthwaite's degrees of freedom; in halves, this is within a user of statsmodels' TTestIndPower.
    """
    squared = baseline.variance(difference), baseline.variance()
    users = shares.squared_error(*squared) * (_fixed_errors(demands) / difference) ** 2
    return max(ceil(users + _shortfall(baseline, demands, shares, *squared)), shares.least())


def always_valid_users(baseline: Baseline, difference: float, demands: Demands, shares: Shares = EVEN) -> int:
    """Return the users of all variants at which the always-valid test finds a difference of the means.

    `difference` is in units of the measure and not 0. The answer is the smallest number at which the half-width of the
    interval plus z(power) standard errors is within the difference. The interval then excludes 0 with that power,
    because the means of so many users are normal. The chance that it has done so at an earlier look is at least as
    large, and mostly it does.
    """
    return tuned_users(baseline, difference, demands, lambda _: demands.tuning_size, shares)


def tuned_users(
    baseline: Baseline,
    difference: float,
    demands: Demands,
    tuning_size: Callable[[int], float],
    shares: Shares = EVEN,
) -> int:
    """Return the same users if the tuning size of the mixture follows from them, as it does from a plan.

    `tuning_size` returns it for a number of users of all variants. It must not fall as users grow. Tuned to the users
    of both variants, a test takes 2.4 times the users of a single look. The boundary of a plan follows from the users,
    too: at its last look, it takes 1.24 times as many at the usual error rates.
    """
    squared_error = shares.squared_error(baseline.variance(difference), baseline.variance())
    if demands.is_planned:
        users = ceil(squared_error * (_errors_at_planned_size(demands) / difference) ** 2)
        return max(users, shares.least())

    def suffices(users: int) -> bool:
        tuned = replace(demands, tuning_size=tuning_size(users))
        return _mixture_errors(users * shares.both, tuned) * sqrt(squared_error / users) <= abs(difference)

    return _first(suffices, shares.least())


def fixed_horizon_users_to_be_safe(
    baseline: Baseline, tolerance: Tolerance, demands: Demands, shares: Shares = EVEN
) -> int:
    """Return the users of all variants at which a single look shows a guardrail safe, if there is no difference.

    It does so with the required power. Source: for an absolute margin, the non-inferiority formula for normal means
    (Julious, Statistics in Medicine 23, 2004, 1921-1986). For a relative margin, that of Hauschke, Kieser, Diletti &
    Burke (Statistics in Medicine 18, 1999, 93-105) for the ratio of two means by Fieller's theorem. Both with
    Guenther's z²/4 for the t-distribution of means. The tests are one side of two-sided intervals.
    """
    demands = replace(demands, treatments=1)
    squared_error = _squared_error_at_margin(baseline, tolerance, shares)
    users = squared_error * (_fixed_errors(demands) / tolerance.distance(baseline.mean)) ** 2
    ratio = tolerance.ratio(baseline.mean)
    variances = baseline.variance(), ratio**2 * baseline.variance()
    return max(ceil(users + _shortfall(baseline, demands, shares, *variances)), shares.least())


def always_valid_users_to_be_safe(
    baseline: Baseline, tolerance: Tolerance, demands: Demands, shares: Shares = EVEN
) -> int:
    """Return the users of all variants at which the always-valid test shows the same with the same power.

    Its boundary is that of the mixture, because guardrails do not wait for the plan.
    """
    demands = replace(demands, treatments=1)
    squared_error = _squared_error_at_margin(baseline, tolerance, shares)
    distance = tolerance.distance(baseline.mean)

    def suffices(users: int) -> bool:
        return _mixture_errors(users * shares.both, demands) * sqrt(squared_error / users) <= distance

    return _first(suffices, shares.least())


def _squared_error_at_margin(baseline: Baseline, tolerance: Tolerance, shares: Shares) -> float:
    """Return the squared error of the tested quantity at the margin, for one user of all variants.

    The quantity is the treatment's mean less `ratio` times the control's. The last term is the error of the mean over
    all users before their exposure, which CUPED subtracts from both.
    """
    ratio = tolerance.ratio(baseline.mean)
    removed = baseline.reduction * baseline.raw_variance()
    of_means = shares.squared_error(baseline.variance(), ratio**2 * baseline.variance())
    return of_means + removed * (ratio - 1) ** 2


def detectable(
    baseline: Baseline,
    control_users: float,
    treatment_users: float,
    demands: Demands,
    planned_users: float | None = None,
) -> Detectable:
    """Return the smallest effects that these users can show: the inverse of the functions above.

    `planned_users` of both variants set the boundary of the always-valid test, if it follows from a plan.
    """
    users = control_users + treatment_users
    if min(control_users, treatment_users) < MIN_USERS:
        return Detectable(None, None)
    shares = Shares(treatment_users / users, control_users / users)
    rest = users - _shortfall(baseline, demands, shares, baseline.variance(), baseline.variance())
    fixed = _fixed_errors(demands) * sqrt(users / rest) if rest > 0 else None
    rises = [
        _rise(baseline, errors, part * control_users, part * treatment_users)
        for part, errors in _always_valid_looks(users, demands, planned_users)
    ]
    return Detectable(
        fixed_horizon=None if fixed is None else _rise(baseline, fixed, control_users, treatment_users),
        always_valid=min((rise for rise in rises if rise is not None), default=None),
    )


def _always_valid_looks(users: float, demands: Demands, planned_users: float | None) -> list[tuple[float, float]]:
    """Return the looks of which the best counts: the part of the users by then, and the errors of an effect.

    Past the planned size, the reading as of then goes on to count beside the mixture.
    """
    if planned_users is None or not demands.is_planned:
        return [(1.0, _mixture_errors(users, demands))]
    from experiments.stats.boundaries import Planned  # noqa: PLC0415 (NumPy costs memory that not every worker needs)

    share = users / planned_users
    boundary = Planned.at(share if share <= 1 else None, round(users), planned_users, demands.alpha)
    today = 1.0, boundary.width(demands.level) + _quantile(demands.power)
    return [today] if share <= 1 else [today, (1 / share, _errors_at_planned_size(demands))]


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


def _errors_at_planned_size(demands: Demands) -> float:
    """Return the same for the boundary of a plan at its last look."""
    from experiments.stats.boundaries import OF_PLAN, critical_value  # noqa: PLC0415 (see above)

    return critical_value(OF_PLAN * demands.level) + _quantile(demands.power)


def _mixture_errors(users: float, demands: Demands) -> float:
    """Return the same for the mixture, at `users` of both variants together."""
    from experiments.stats.sequential import half_width  # noqa: PLC0415 (see above)

    tuning = {"tuning_size": demands.tuning_size, "alpha": demands.alpha}
    return float(half_width(1.0, users, **tuning, comparisons=demands.treatments)) + _quantile(demands.power)


def _shortfall(baseline: Baseline, demands: Demands, shares: Shares, of_treatment: float, of_control: float) -> float:
    """Return the additional users of all variants that the t-distribution needs; 0 for rates."""
    if baseline.is_rate:
        return 0.0
    treatment, control = of_treatment / shares.treatment, of_control / shares.control
    freedom = (treatment + control) ** 2 / (treatment**2 / shares.treatment + control**2 / shares.control)
    return _quantile(demands.level / 2) ** 2 / 2 / freedom


def _quantile(probability: float) -> float:
    return NormalDist().inv_cdf(probability)


def _first(suffices: Callable[[int], bool], least: int) -> int:
    """Return the smallest number of users that suffices. Every greater number must suffice too."""
    if suffices(least):
        return least
    low, high = least, 2 * least
    while not suffices(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if suffices(middle) else (middle, high)
    return high
