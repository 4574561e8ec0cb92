"""The test of two shares by their score: what their difference and their ratio may be.

At each candidate, both shares are estimated by maximum likelihood under it, and the variance follows from these. So an
arm without conversions has a variance, too, and the interval of its lift begins at -100 %. Over several strata, the
shares are combined by the weights of the strata, and the variances, each estimated under the candidate, by the squared
weights. Source: Miettinen & Nurminen 1985, "Comparative analysis of two rates", Statistics in Medicine 4:213.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from experiments.stats.fieller import LOWEST, Bounds
from experiments.stats.roots import find_bound
from experiments.stats.samples import Sample

_MAX_STEPS = 50
_PRECISION = 1e-10
"""A step of this share is the last one. The next one would be about its square."""


@dataclass(frozen=True, slots=True)
class SharesOfStratum:
    """The users who converted and all users of both variants in a stratum. The weights of strata add up to 1."""

    weight: float
    treatment: float
    of_treatment: float
    control: float
    of_control: float

    @classmethod
    def of(cls, weight: float, treatment: Sample, control: Sample) -> SharesOfStratum:
        return cls(weight, treatment.mean * treatment.n, treatment.n, control.mean * control.n, control.n)

    def alike(self, factor: float) -> SharesOfStratum:
        """Return so many times the users, of whom as many converted in both variants."""
        share = (self.treatment + self.control) / self.users
        of_treatment, of_control = factor * self.of_treatment, factor * self.of_control
        return SharesOfStratum(self.weight, share * of_treatment, of_treatment, share * of_control, of_control)

    @property
    def users(self) -> float:
        return self.of_treatment + self.of_control

    @property
    def correction(self) -> float:
        """Return N / (N - 1), which makes the variance unbiased."""
        return self.users / (self.users - 1)

    def variance_of_difference(self, difference: float) -> float:
        """Return the variance of the difference of the shares if the true one is `difference`."""
        control = self._control_given_difference(difference)
        treatment = min(max(control + difference, 0.0), 1.0)
        variance = treatment * (1 - treatment) / self.of_treatment + control * (1 - control) / self.of_control
        return variance * self.correction

    def variance_of_ratio(self, ratio: float) -> float:
        """Return the variance of the treatment's share minus `ratio` times the control's, if that is the true ratio."""
        control = self._control_given_ratio(ratio)
        treatment = min(ratio * control, 1.0)
        of_control = ratio * ratio * control * (1 - control) / self.of_control
        return (treatment * (1 - treatment) / self.of_treatment + of_control) * self.correction

    def _control_given_difference(self, difference: float) -> float:
        """Return the control's most likely share: a root of a cubic polynomial, by Newton's method.

        It is between the control's share and the one that the treatment's implies. From the point of inflection, or
        from the end that is nearest to it, all steps but the first go in one direction.
        """
        of_treatment, of_control, control = self.of_treatment, self.of_control, self.control
        converted, users = self.treatment + control, of_treatment + of_control
        if difference == 0:
            return converted / users
        square = (of_treatment + 2 * of_control) * difference - users - converted
        linear = (of_control * difference - users - 2 * control) * difference + converted
        constant = control * difference * (1 - difference)
        seen, implied = control / of_control, self.treatment / of_treatment - difference
        inflection = -square / (3 * users)
        share = min(max(inflection, min(seen, implied)), max(seen, implied))
        lowest, highest = max(0.0, -difference), min(1.0, 1 - difference)
        share = min(max(share, lowest), highest)
        for _ in range(_MAX_STEPS):
            slope = (3 * users * share + 2 * square) * share + linear
            step = (((users * share + square) * share + linear) * share + constant) / slope if slope else 0.0
            share -= step
            if abs(step) <= _PRECISION * share:
                break
        return min(max(share, lowest), highest)

    def _control_given_ratio(self, ratio: float) -> float:
        """Return the control's most likely share: the smaller root of a quadratic polynomial."""
        converted = self.treatment + self.control
        half = (self.of_treatment * ratio + self.treatment + self.of_control + self.control * ratio) / 2
        root = math.sqrt(max(half * half - self.users * ratio * converted, 0.0))
        return min(converted / (half + root), 1.0, 1 / ratio if ratio else 1.0)


@dataclass(frozen=True)
class Shares:
    """Two shares in strata, each with users in both variants."""

    strata: Sequence[SharesOfStratum]

    @cached_property
    def treatment(self) -> float:
        return math.fsum([part.weight * part.treatment / part.of_treatment for part in self.strata])

    @cached_property
    def control(self) -> float:
        return math.fsum([part.weight * part.control / part.of_control for part in self.strata])

    def z_of_difference(self, difference: float) -> float:
        """Return how many standard errors the estimate is above a difference."""
        return _standardized(self.treatment - self.control - difference, self._error_of_difference(difference))

    def z_of_ratio(self, ratio: float) -> float:
        """Return how many standard errors the estimate is above a ratio of the shares."""
        return _standardized(self.treatment - ratio * self.control, self._error_of_ratio(ratio))

    def alike(self, factor: float) -> Shares:
        """Return the test of so many times the users, without a difference in any stratum."""
        return Shares([part.alike(factor) for part in self.strata])

    def bounds_of_difference(self, width: float) -> tuple[float, float]:
        """Return the interval of the differences that are at most `width` standard errors away."""
        difference = self.treatment - self.control

        def half_width(candidate: float) -> float:
            return width * self._error_of_difference(candidate)

        # Of equal shares of 0 or 1, the variance under no difference is 0. It grows away from there.
        step = width * self._error_at_difference or width * width / self.users
        return find_bound(half_width, difference, step, -1.0), find_bound(half_width, difference, step, 1.0)

    def bounds_of_lift(self, width: float) -> Bounds:
        """Return the interval of the lift. Its upper side is open where the control has no conversions."""
        treatment, control = self.treatment, self.control
        if not control:
            return LOWEST, None
        in_errors, ratio = width / control, treatment / control

        def half_width(candidate: float) -> float:
            return in_errors * self._error_of_ratio(candidate)

        step = in_errors * self._error_at_ratio or in_errors * in_errors * control / self.users
        return find_bound(half_width, ratio, step, 0.0) - 1, find_bound(half_width, ratio, step, math.inf) - 1

    @property
    def users(self) -> float:
        return sum(part.users for part in self.strata)

    @cached_property
    def _error_at_difference(self) -> float:
        """Return the standard error of the difference under the difference that was seen."""
        return self._error_of_difference(self.treatment - self.control)

    @cached_property
    def _error_at_ratio(self) -> float:
        return self._error_of_ratio(self.treatment / self.control)

    def _error_of_difference(self, difference: float) -> float:
        squared = 0.0
        for part in self.strata:
            squared += part.weight * part.weight * part.variance_of_difference(difference)
        return math.sqrt(squared)

    def _error_of_ratio(self, ratio: float) -> float:
        squared = 0.0
        for part in self.strata:
            squared += part.weight * part.weight * part.variance_of_ratio(ratio)
        return math.sqrt(squared)


def _standardized(distance: float, error: float) -> float:
    if error > 0:
        return distance / error
    return math.copysign(math.inf, distance) if distance else 0.0
