"""The question to the planner, the assumptions of its answer, and the checks of both."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from config.errors import Detail, DetailCode
from experiments.models.design_checks import MAX_VARIANTS
from experiments.models.plan import check_tuning_size

MIN_MDE = 0.0001
MAX_MDE = 10.0
MIN_RATE = 0.000001
MIN_MEAN, MAX_MEAN = 1e-9, 1e12
MIN_ALPHA, MAX_ALPHA = 0.000001, 0.2
MAX_REDUCTION = 0.99
MIN_POWER, MAX_POWER = 0.5, 0.9999
MIN_USERS_PER_DAY, MAX_USERS_PER_DAY = 0.01, 1e9


class BaselineKind(StrEnum):
    """Whether the metric counts if something happened (a rate), or how much (a mean)."""

    RATE = "rate"
    MEAN = "mean"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """The parameters of a question. None means the value from the metric's history, or the default.

    `mde` is the minimum detectable effect as a share of the baseline: 0.05 is a rise of 5 %. None means the
    experiment's smallest effect of interest. `variance_reduction` is the share of the variance that CUPED removes.
    """

    mde: float | None = None
    kind: BaselineKind | None = None
    baseline: float | None = None
    standard_deviation: float | None = None
    power: float | None = None
    alpha: float | None = None
    variants: int | None = None
    users_per_day: float | None = None
    tuning_size: int | None = None
    variance_reduction: float | None = None
    metric: str | None = None
    experiment: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumptions:
    """The values that a plan is computed from. Without `users_per_day` it has no days.

    `metric` is the key of the metric, if the question names one or its experiment does, and `unit` that of its values.
    `shares` are the shares of
    users of the variants with users, the control's first. `is_planned` says that the boundary of the always-valid test
    follows from the plan. `maturity_days` is the time until the windows of the last users are over.
    """

    metric: str | None
    unit: str
    kind: BaselineKind
    baseline: float
    standard_deviation: float | None
    mde: float
    power: float
    alpha: float
    shares: Sequence[Fraction]
    is_planned: bool
    users_per_day: float | None
    tuning_size: int
    variance_reduction: float
    maturity_days: int

    @property
    def variants(self) -> int:
        return len(self.shares)

    @property
    def smallest_share(self) -> Fraction:
        return min(self.shares)

    @property
    def are_alike(self) -> bool:
        """Return whether all variants get the same number of users."""
        return self.smallest_share * self.variants == 1


def check_question(question: Question) -> Iterator[Detail]:
    """Check a question, as far as it does not depend on the metric's history."""
    if question.mde is not None:
        yield from _check_mde(question.mde)
    elif question.experiment is None:
        yield missing_mde()
    yield from _check_range("power", question.power, MIN_POWER, MAX_POWER)
    yield from _check_range("alpha", question.alpha, MIN_ALPHA, MAX_ALPHA)
    yield from _check_range("varianceReduction", question.variance_reduction, 0, MAX_REDUCTION)
    yield from _check_range("variants", question.variants, 2, MAX_VARIANTS)
    yield from _check_range("usersPerDay", question.users_per_day, MIN_USERS_PER_DAY, MAX_USERS_PER_DAY)
    if question.tuning_size is not None:
        yield from check_tuning_size(question.tuning_size)
    if question.metric is None and question.experiment is None:
        yield from check_measure(question.kind or BaselineKind.RATE, question.baseline, question.standard_deviation)


def missing_mde() -> Detail:
    """Return the refusal of a question without an effect."""
    return Detail("mde", DetailCode.REQUIRED, "Add the smallest effect to find, such as 0.05 for 5 %.")


def _check_mde(mde: float) -> Iterator[Detail]:
    if not MIN_MDE <= abs(mde) <= MAX_MDE or mde <= -1:
        message = (
            f"Must be from {MIN_MDE} to {MAX_MDE:g}, such as 0.05 for a rise of 5 %; for a fall, below 0 and above -1."
        )
        yield Detail("mde", DetailCode.OUT_OF_RANGE, message)


def check_measure(
    kind: BaselineKind, baseline: float | None, standard_deviation: float | None, metric: str | None = None
) -> Iterator[Detail]:
    """Check a baseline and a deviation, from the question or from the history."""
    if baseline is None:
        unknown = "" if metric is None else "The metric has no past data. "
        message = f"{unknown}Add the value of the control, such as 0.1 where 10 % of users convert."
        yield Detail("baseline", DetailCode.REQUIRED, message)
    elif kind is BaselineKind.RATE:
        if not MIN_RATE <= baseline <= 1 - MIN_RATE:
            message = f"Must be above 0 and below 1 for type rate, such as 0.1 for 10 %; it is {baseline:g}."
            yield Detail("baseline", DetailCode.OUT_OF_RANGE, message)
    elif not MIN_MEAN <= abs(baseline) <= MAX_MEAN:
        message = f"Must be from {-MAX_MEAN:,.0f} to {MAX_MEAN:,.0f}, and not 0; it is {baseline:g}."
        yield Detail("baseline", DetailCode.OUT_OF_RANGE, message)
    if kind is BaselineKind.RATE and standard_deviation is not None:
        message = "Must be left out for type rate: the baseline determines it."
        yield Detail("standardDeviation", DetailCode.UNKNOWN_FIELD, message)
    elif kind is BaselineKind.MEAN and standard_deviation is None:
        message = "There is no past data. Add the standard deviation between users."
        yield Detail("standardDeviation", DetailCode.REQUIRED, message)
    elif standard_deviation is not None and not 0 < standard_deviation <= MAX_MEAN:
        message = f"Must be above 0 and at most {MAX_MEAN:,.0f}; it is {standard_deviation:g}."
        yield Detail("standardDeviation", DetailCode.OUT_OF_RANGE, message)


def check_effect(kind: BaselineKind, baseline: float, mde: float) -> Iterator[Detail]:
    """Check that an effect leaves a rate below 1."""
    if kind is BaselineKind.RATE and baseline * (1 + mde) >= 1:
        most = 1 / baseline - 1
        message = (
            f"Must leave the rate below 1: send less than {most:.4g}, which is {100 * most:.4g} %, with a baseline of "
            f"{baseline:g}."
        )
        yield Detail("mde", DetailCode.OUT_OF_RANGE, message)


def _check_range(field: str, number: float | None, low: float, high: float) -> Iterator[Detail]:
    if number is not None and not low <= number <= high:
        yield Detail(field, DetailCode.OUT_OF_RANGE, f"Must be from {_plain(low)} to {_plain(high)}.")


def _plain(number: float) -> str:
    """Return a number without an exponent, such as 0.000001 or 1,000,000,000."""
    return f"{number:,.6f}".rstrip("0").rstrip(".")
