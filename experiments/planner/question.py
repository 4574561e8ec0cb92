"""What somebody asks of the planner, what it reckons with in the end, and what neither may be."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from config.errors import Detail, DetailCode
from experiments.design.checks import MOST_VARIANTS, check_tuning_size

SMALLEST_MDE = 0.0001
LARGEST_MDE = 10.0
SMALLEST_RATE = 0.000001
SMALLEST_MEAN, LARGEST_MEAN = 1e-9, 1e12
SMALLEST_ALPHA, LARGEST_ALPHA = 0.000001, 0.2
SMALLEST_POWER, LARGEST_POWER = 0.5, 0.9999
FEWEST_USERS_PER_DAY, MOST_USERS_PER_DAY = 0.01, 1e9


class Kind(StrEnum):
    """What is measured of users: whether something happened, or how much."""

    RATE = "rate"
    MEAN = "mean"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What was said; None is left to what is known of the metric, or to what is usual.

    `mde` is the minimum detectable effect as a share of the baseline: 0.05 for a rise by 5 %.
    """

    mde: float | None = None
    kind: Kind | None = None
    baseline: float | None = None
    standard_deviation: float | None = None
    power: float | None = None
    alpha: float | None = None
    variants: int | None = None
    users_per_day: float | None = None
    tuning_size: int | None = None
    metric: str | None = None
    experiment: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumptions:
    """What a plan reckons with. Without `users_per_day` it knows of no days.

    `variants` are those that get users; `smallest_share` is that of all users which the smallest of them gets.
    """

    kind: Kind
    baseline: float
    standard_deviation: float | None
    mde: float
    power: float
    alpha: float
    variants: int
    smallest_share: Fraction
    users_per_day: float | None
    tuning_size: int

    @property
    def are_alike(self) -> bool:
        """Whether all variants get as many users."""
        return self.smallest_share * self.variants == 1


def check_question(question: Question) -> Iterator[Detail]:
    """Say what is wrong with what was said, as far as that does not depend on what is known of a metric."""
    if question.mde is None:
        yield Detail("mde", DetailCode.REQUIRED, "Is missing; add the smallest effect to find, 0.05 for 5 %.")
    elif not SMALLEST_MDE <= abs(question.mde) <= LARGEST_MDE or question.mde <= -1:
        message = (
            f"Must be from {SMALLEST_MDE} to {LARGEST_MDE:g}, 0.05 for a rise by 5 %; for a fall, below 0 and above -1."
        )
        yield Detail("mde", DetailCode.OUT_OF_RANGE, message)
    yield from _check_range("power", question.power, SMALLEST_POWER, LARGEST_POWER)
    yield from _check_range("alpha", question.alpha, SMALLEST_ALPHA, LARGEST_ALPHA)
    yield from _check_range("variants", question.variants, 2, MOST_VARIANTS)
    yield from _check_range("usersPerDay", question.users_per_day, FEWEST_USERS_PER_DAY, MOST_USERS_PER_DAY)
    if question.tuning_size is not None:
        yield from check_tuning_size(question.tuning_size)
    if question.metric is None and question.experiment is None:
        yield from check_measure(question.kind or Kind.RATE, question.baseline, question.standard_deviation)


def check_measure(
    kind: Kind, baseline: float | None, standard_deviation: float | None, metric: str | None = None
) -> Iterator[Detail]:
    """Say what is wrong with what is measured, be it said or known of the metric; None is neither."""
    if baseline is None:
        unknown = " and not known" if metric is None else ", and there is no history of this metric yet that tells one"
        message = f"Is missing{unknown}; send what the control gives, such as 0.1 where 10 % of users convert."
        yield Detail("baseline", DetailCode.REQUIRED, message)
    elif kind is Kind.RATE:
        if not SMALLEST_RATE <= baseline <= 1 - SMALLEST_RATE:
            message = f"Must be above 0 and below 1 where type is rate, 0.1 for 10 %; it is {baseline:g}."
            yield Detail("baseline", DetailCode.OUT_OF_RANGE, message)
    elif not SMALLEST_MEAN <= abs(baseline) <= LARGEST_MEAN:
        message = f"Must not be 0, and from {-LARGEST_MEAN:,.0f} to {LARGEST_MEAN:,.0f}; it is {baseline:g}."
        yield Detail("baseline", DetailCode.OUT_OF_RANGE, message)
    if kind is Kind.RATE and standard_deviation is not None:
        message = "Must be left out where type is rate: the baseline says how much users differ."
        yield Detail("standardDeviation", DetailCode.UNKNOWN_FIELD, message)
    elif kind is Kind.MEAN and standard_deviation is None:
        message = "Is missing and not known; add by how much users differ, as one standard deviation."
        yield Detail("standardDeviation", DetailCode.REQUIRED, message)
    elif standard_deviation is not None and not 0 < standard_deviation <= LARGEST_MEAN:
        message = f"Must be above 0, and at most {LARGEST_MEAN:,.0f}; it is {standard_deviation:g}."
        yield Detail("standardDeviation", DetailCode.OUT_OF_RANGE, message)


def check_effect(kind: Kind, baseline: float, mde: float) -> Iterator[Detail]:
    """Say what is wrong with an effect on such a baseline."""
    if kind is Kind.RATE and baseline * (1 + mde) >= 1:
        message = f"Must leave the rate below 1: send less than {1 / baseline - 1:.4g} with a baseline of {baseline:g}."
        yield Detail("mde", DetailCode.OUT_OF_RANGE, message)


def _check_range(field: str, number: float | None, low: float, high: float) -> Iterator[Detail]:
    if number is not None and not low <= number <= high:
        yield Detail(field, DetailCode.OUT_OF_RANGE, f"Must be from {_plain(low)} to {_plain(high)}.")


def _plain(number: float) -> str:
    """Without an exponent: 0.000001, and 1,000,000,000."""
    return f"{number:,.6f}".rstrip("0").rstrip(".")
