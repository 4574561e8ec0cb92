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

from experiments.stats.fieller import LOWEST, Bounds
from experiments.stats.roots import find_bound
from experiments.stats.samples import Sample

_LARGEST_LOG = 60.0
"""The logarithm of the greatest ratio that is tried. Of shares of fewer than 2^63 users, none is greater."""


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
        """Return the control's most likely share: the root of a cubic polynomial, in closed form and then by Newton.

        The closed form alone loses half of the digits of small shares.
        """
        converted = self.treatment + self.control
        if difference == 0:
            return converted / self.users
        lowest, highest = max(0.0, -difference), min(1.0, 1 - difference)
        cubic = self.users
        square = (self.of_treatment + 2 * self.of_control) * difference - self.users - converted
        linear = (self.of_control * difference - self.users - 2 * self.control) * difference + converted
        constant = self.control * difference * (1 - difference)
        third = square / (3 * cubic)
        q = third**3 - linear * square / (6 * cubic * cubic) + constant / (2 * cubic)
        p = math.copysign(math.sqrt(max(third * third - linear / (3 * cubic), 0.0)), q)
        cosine = min(max(q / p**3, -1.0), 1.0) if p else 0.0
        share = 2 * p * math.cos((math.pi + math.acos(cosine)) / 3) - third
        for _ in range(2):
            slope = (3 * cubic * share + 2 * square) * share + linear
            if slope:
                share -= (((cubic * share + square) * share + linear) * share + constant) / slope
        return min(max(share, lowest), highest)

    def _control_given_ratio(self, ratio: float) -> float:
        """Return the control's most likely share: the smaller root of a quadratic polynomial."""
        converted = self.treatment + self.control
        half = (self.of_treatment * ratio + self.treatment + self.of_control + self.control * ratio) / 2
        root = math.sqrt(max(half * half - self.users * ratio * converted, 0.0))
        return min(converted / (half + root), 1.0, 1 / ratio if ratio else 1.0)


@dataclass(frozen=True, slots=True)
class Shares:
    """Two shares in strata, each with users in both variants."""

    strata: Sequence[SharesOfStratum]

    @property
    def treatment(self) -> float:
        return math.fsum(part.weight * part.treatment / part.of_treatment for part in self.strata)

    @property
    def control(self) -> float:
        return math.fsum(part.weight * part.control / part.of_control for part in self.strata)

    def z_of_difference(self, difference: float) -> float:
        """Return how many standard errors the estimate is above a difference."""
        return _standardized(self.treatment - self.control - difference, self._variance_of_difference(difference))

    def z_of_ratio(self, ratio: float) -> float:
        """Return how many standard errors the estimate is above a ratio of the shares."""
        return _standardized(self.treatment - ratio * self.control, self._variance_of_ratio(ratio))

    def alike(self, factor: float) -> Shares:
        """Return the test of so many times the users, without a difference in any stratum."""
        return Shares([part.alike(factor) for part in self.strata])

    def bounds_of_difference(self, width: float) -> tuple[float, float]:
        """Return the interval of the differences that are at most `width` standard errors away."""
        difference = self.treatment - self.control

        def excess(candidate: float) -> float:
            return abs(self.z_of_difference(candidate)) - width

        step = width * math.sqrt(self._variance_of_difference(difference)) or width / self.users
        return find_bound(excess, difference, step, -1.0), find_bound(excess, difference, step, 1.0)

    def bounds_of_lift(self, width: float) -> Bounds:
        """Return the interval of the lift. Its upper side is open where the control has no conversions."""

        def excess(log_ratio: float) -> float:
            return abs(self.z_of_ratio(math.exp(log_ratio))) - width

        treatment, control = self.treatment, self.control
        if not control:
            return LOWEST, None
        if not treatment:  # every ratio near 0 is possible
            return LOWEST, math.expm1(find_bound(excess, -_LARGEST_LOG, _LARGEST_LOG / 2, _LARGEST_LOG))
        ratio = treatment / control
        estimate, step = math.log(ratio), width * math.sqrt(self._variance_of_ratio(ratio)) / treatment or 1.0
        lower = find_bound(excess, estimate, step, -_LARGEST_LOG)
        return math.expm1(lower), math.expm1(find_bound(excess, estimate, step, _LARGEST_LOG))

    @property
    def users(self) -> float:
        return sum(part.users for part in self.strata)

    def _variance_of_difference(self, difference: float) -> float:
        return math.fsum(part.weight * part.weight * part.variance_of_difference(difference) for part in self.strata)

    def _variance_of_ratio(self, ratio: float) -> float:
        return math.fsum(part.weight * part.weight * part.variance_of_ratio(ratio) for part in self.strata)


def _standardized(distance: float, variance: float) -> float:
    if variance > 0:
        return distance / math.sqrt(variance)
    return math.copysign(math.inf, distance) if distance else 0.0
