"""Tests of two variants from the values of single users, by search: every candidate is tested until one is rejected.

Nothing here uses the code of the service. Shares are estimated under each candidate from the slope of their likelihood.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import optimize

ALPHA = 0.05
TUNING_SIZE = 5000

Bounds = tuple[float, float | None]


def rho2() -> float:
    return (-2 * math.log(ALPHA) + math.log(-2 * math.log(ALPHA) + 1)) / TUNING_SIZE


def always_valid_width(users: int) -> float:
    """Return the half-width in standard errors, by the formula of the guide."""
    grown = users * rho2() + 1
    return math.sqrt(users) * math.sqrt(2 * grown / (users**2 * rho2()) * math.log(math.sqrt(grown) / ALPHA))


def always_valid_p(users: int, z: float) -> float:
    grown = users * rho2() + 1
    return min(1.0, math.sqrt(grown) * math.exp(-rho2() * users * z**2 / (2 * grown)))


class Test(ABC):
    """Two variants: the estimates of both, and how far they are from a candidate, in standard errors."""

    __test__ = False

    @property
    @abstractmethod
    def treatment(self) -> float: ...

    @property
    @abstractmethod
    def control(self) -> float: ...

    @abstractmethod
    def z_of_difference(self, difference: float) -> float: ...

    @abstractmethod
    def z_of_ratio(self, ratio: float) -> float: ...

    @property
    def z(self) -> float:
        return self.z_of_difference(0.0)

    @abstractmethod
    def limits(self, reach: float) -> tuple[float, float]:
        """Return how far the ends of a difference are searched; `reach` is half of its interval without a multiple."""

    def difference(self, width: float) -> tuple[float, float]:
        """Return the ends of the differences around the estimate that are at most `width` standard errors away.

        An end that is not found is as far as if the treatment had added to values, by the larger variance there.
        """
        estimate = self.treatment - self.control
        reach = width * (estimate / self.z if self.z else 1.0)
        step, limits = reach / 10, self.limits(reach)
        ends = []
        for sign in (-1, 1):
            end = search(self.z_of_difference, width, estimate, lambda at, sign=sign: at + sign * step, limits)
            if end is None:
                added = min(max(estimate + sign * reach, limits[0]), limits[1])
                farther = max(reach, width * abs((estimate - added) / self.z_of_difference(added)))
                end = min(max(estimate + sign * farther, limits[0]), limits[1])
            ends.append(end)
        return ends[0], ends[1]

    def lift(self, width: float) -> Bounds:
        """Return the same of the lift, from -100 % on. None is an end that is nowhere near."""
        estimate = self.treatment / self.control
        limits = (1e-6, 1e4)
        lower = search(self.z_of_ratio, width, estimate, lambda at: at / 1.03, limits)
        upper = search(self.z_of_ratio, width, estimate, lambda at: at * 1.03, limits)
        return (-1.0 if lower is None else lower - 1), (None if upper is None else upper - 1)


def search(
    z: Callable[[float], float],
    width: float,
    estimate: float,
    following: Callable[[float], float],
    limits: tuple[float, float],
) -> float | None:
    """Return the first candidate from the estimate on that is rejected, or None without one."""
    inside = estimate
    while limits[0] < inside < limits[1]:
        outside = min(max(following(inside), limits[0]), limits[1])
        if abs(z(outside)) > width:
            return float(optimize.brentq(lambda at: abs(z(at)) - width, inside, outside, xtol=1e-15))
        inside = outside
    return None


@dataclass(frozen=True)
class Shares(Test):
    """Users who converted and all users: the score test of Miettinen and Nurminen 1985."""

    converted_of_treatment: float
    users_of_treatment: float
    converted_of_control: float
    users_of_control: float

    @classmethod
    def of(cls, treatment: np.ndarray, control: np.ndarray) -> Shares:
        return cls(treatment.sum(), len(treatment), control.sum(), len(control))

    def limits(self, reach: float) -> tuple[float, float]:
        return -1.0, 1.0

    @property
    def treatment(self) -> float:
        return self.converted_of_treatment / self.users_of_treatment

    @property
    def control(self) -> float:
        return self.converted_of_control / self.users_of_control

    def z_of_difference(self, difference: float) -> float:
        low, high = max(0.0, -difference), min(1.0, 1 - difference)
        control = self._most_likely(lambda share: (share + difference, 1.0), low, high)
        variance = self._variance(control + difference, control, 1.0)
        return (self.treatment - self.control - difference) / math.sqrt(variance)

    def z_of_ratio(self, ratio: float) -> float:
        control = self._most_likely(lambda share: (share * ratio, ratio), 0.0, min(1.0, 1 / ratio))
        return (self.treatment - ratio * self.control) / math.sqrt(self._variance(ratio * control, control, ratio))

    def _variance(self, treatment: float, control: float, ratio: float) -> float:
        users = self.users_of_treatment + self.users_of_control
        of_control = ratio**2 * control * (1 - control) / self.users_of_control
        return (treatment * (1 - treatment) / self.users_of_treatment + of_control) * users / (users - 1)

    def _most_likely(self, treatment: Callable[[float], tuple[float, float]], low: float, high: float) -> float:
        """Return the control's share at which the slope of the logarithm of the likelihood is 0."""

        def slope(control: float) -> float:
            share, inner = treatment(control)
            of_control = slope_of(self.converted_of_control, self.users_of_control, control)
            return of_control + inner * slope_of(self.converted_of_treatment, self.users_of_treatment, share)

        tiny = 1e-13 * (high - low)
        return float(optimize.brentq(slope, low + tiny, high - tiny, xtol=1e-16))


def slope_of(converted: float, users: float, share: float) -> float:
    return converted / share - (users - converted) / (1 - share)


@dataclass(frozen=True)
class Means(Test):
    """Values of users that cannot be negative, tested by the larger of Welch's and the pooled variance.

    `value` of a variant are its values around their mean, and `explained` the part of them that history explains.
    `shared` is a squared error that both means share.
    """

    of_treatment: float
    of_control: float
    value: tuple[np.ndarray, np.ndarray]
    explained: tuple[np.ndarray, np.ndarray]
    shared: float = 0.0

    @classmethod
    def of(cls, treatment: np.ndarray, control: np.ndarray) -> Means:
        value = treatment - treatment.mean(), control - control.mean()
        return cls(treatment.mean(), control.mean(), value, (0 * treatment, 0 * control))

    @property
    def treatment(self) -> float:
        return self.of_treatment

    @property
    def control(self) -> float:
        return self.of_control

    def limits(self, reach: float) -> tuple[float, float]:
        estimate = self.treatment - self.control
        return estimate - 1_000 * reach, estimate + 1_000 * reach

    @cached_property
    def errors(self) -> tuple[float, float]:
        """Return the squared standard errors of treatment and control."""
        pairs = zip(self.value, self.explained, strict=True)
        first, second = (((y - x) ** 2).sum() / (len(y) - 1) / len(y) for y, x in pairs)
        return float(first), float(second)

    def pooled(self, ratio: float) -> float:
        """Return the variance of one user, where the treatment's values are divided by the ratio."""
        (y_t, y_c), (x_t, x_c) = self.value, self.explained
        squares = ((y_t / ratio - x_t) ** 2).sum() + ((y_c - x_c) ** 2).sum()
        return float(squares / (len(y_t) + len(y_c) - 2))

    def z_of_difference(self, difference: float) -> float:
        ratio = 1 + difference / self.control
        ratio = ratio if ratio > 0 else 1.0
        n_t, n_c = (len(values) for values in self.value)
        variance = max(sum(self.errors), self.pooled(ratio) * (ratio**2 / n_t + 1 / n_c))
        return (self.treatment - self.control - difference) / math.sqrt(variance)

    def z_of_ratio(self, ratio: float) -> float:
        n_t, n_c = (len(values) for values in self.value)
        welch = self.errors[0] + ratio**2 * self.errors[1]
        variance = max(welch, self.pooled(ratio) * ratio**2 * (1 / n_t + 1 / n_c))
        return (self.treatment - ratio * self.control) / math.sqrt(variance + (1 - ratio) ** 2 * self.shared)
