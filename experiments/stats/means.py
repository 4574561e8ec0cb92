"""The test of two means: what their difference and their ratio may be, by the larger of two variances.

One is Welch's, from the variance of each variant. It is too small where a small variant happens to lack the few large
values that make up most of the variance. The other assumes that the treatment multiplies values by the ratio that is
tested, and pools both variants: the treatment's values divided by this ratio have the control's variance. Where values
may be below 0, it assumes instead that the treatment adds to values. Without a difference, both tests are one. Over
several strata, the larger variance of each counts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from experiments.stats import fieller
from experiments.stats.fieller import Bounds, Quadratic
from experiments.stats.roots import find_bound
from experiments.stats.samples import Sample

_MAX_STEPS_AWAY = 1_000.0
"""No bound of a difference is searched farther from the estimate, in half-widths of Welch's interval."""


@dataclass(frozen=True, slots=True)
class MeansOfStratum:
    """Both variants in a stratum, each with two users at least. The weights of strata add up to 1.

    `shared` is a squared error that both means share (see `cuped.AdjustedStratum`). `pooled` is the variance of one
    user of both variants together, where it does not follow from the samples.
    """

    weight: float
    treatment: Sample
    control: Sample
    shared: float = 0.0
    pooled: float | None = None
    is_non_negative: bool = False

    @property
    def is_scaled(self) -> bool:
        """Return whether the treatment is taken to multiply values. Of values that are all 0, nothing is a multiple."""
        return self.is_non_negative and bool(self.treatment.mean or self.treatment.variance)

    def alike(self, factor: float) -> MeansOfStratum:
        """Return so many times the users, who have the mean and the variance of all in both variants."""
        users = self.treatment.n + self.control.n
        weights = self.treatment.n / users, self.control.n / users
        whole = {
            name: weights[0] * getattr(self.treatment, name) + weights[1] * getattr(self.control, name)
            for name in ("mean", "variance", "explained_product", "explained_square")
        }
        treatment, control = (
            replace(sample, n=max(round(factor * sample.n), 2), **whole) for sample in (self.treatment, self.control)
        )
        return replace(self, treatment=treatment, control=control, shared=self.shared / factor)

    @property
    def freedom(self) -> int:
        return self.treatment.n + self.control.n - 2

    @property
    def squares(self) -> tuple[float, float, float]:
        """Return the treatment's sums of squares and products of values and of what history explains of them."""
        if self.pooled is not None:
            return 0.0, 0.0, 0.0
        sample, users = self.treatment, self.treatment.n - 1
        yy = sample.variance + 2 * sample.explained_product - sample.explained_square
        return users * yy, users * sample.explained_product, users * sample.explained_square

    @property
    def squares_of_control(self) -> float:
        return self.control.variance * (self.control.n - 1) if self.pooled is None else self.pooled * self.freedom

    def welch(self) -> Quadratic:
        """Return the variance from the variance of each variant."""
        of_treatment, of_control = self.treatment.squared_error, self.control.squared_error
        return Quadratic(of_treatment + self.shared, self.shared, of_control + self.shared)

    def pooled_in_ratio(self) -> Quadratic:
        """Return the pooled variance. If the treatment multiplies values, it depends on the ratio in all its parts."""
        if not self.is_scaled:
            variance = self.variance_of_user(1.0)
            of_treatment, of_control = variance / self.treatment.n, variance / self.control.n
            return Quadratic(of_treatment + self.shared, self.shared, of_control + self.shared)
        part = (1 / self.treatment.n + 1 / self.control.n) / self.freedom
        yy, xy, xx = (part * squares for squares in self.squares)
        return Quadratic(yy + self.shared, xy + self.shared, xx + part * self.squares_of_control + self.shared)

    def of_difference(self, ratio: float) -> float:
        """Return the larger variance of the difference of the means, if the true means have this ratio."""
        of_treatment, of_control = self.treatment.squared_error, self.control.squared_error
        if self.is_scaled and ratio > 0:
            squared = ratio * ratio
        else:
            ratio = squared = 1.0
        pooled = self.variance_of_user(ratio) * (squared / self.treatment.n + 1 / self.control.n)
        return max(of_treatment + of_control, pooled)

    def variance_of_user(self, ratio: float) -> float:
        """Return the pooled variance of a user of the control, if the treatment multiplies values by the ratio."""
        yy, xy, xx = self.squares
        return ((yy / ratio - 2 * xy) / ratio + xx + self.squares_of_control) / self.freedom


@dataclass(frozen=True, slots=True)
class Means:
    """Two means, combined over strata by their weights."""

    treatment: float
    control: float
    strata: Sequence[MeansOfStratum]
    is_non_negative: bool

    @property
    def difference(self) -> float:
        return self.treatment - self.control

    def z_of_difference(self, difference: float) -> float:
        """Return how many standard errors the estimate is above a difference."""
        return (self.difference - difference) / math.sqrt(self._variance_of_difference(difference))

    def z_of_ratio(self, ratio: float) -> float:
        """Return how many standard errors the estimate is above a ratio of the means."""
        return (self.treatment - ratio * self.control) / math.sqrt(self._larger_at(ratio).at(ratio))

    def alike(self, factor: float) -> Means:
        """Return the test of so many times the users, without a difference in any stratum."""
        strata = [part.alike(factor) for part in self.strata]
        mean = math.fsum(part.weight * part.control.mean for part in strata)
        return Means(mean, mean, strata, self.is_non_negative)

    def bounds_of_difference(self, width: float) -> tuple[float, float]:
        """Return the interval of the differences that are at most `width` standard errors away."""
        steps = [width * math.sqrt(variance) for variance in (self._welch(), self._variance_of_difference(0.0))]
        if self.control <= 0 or not any(part.is_scaled for part in self.strata):
            return self.difference - steps[1], self.difference + steps[1]

        def excess(candidate: float) -> float:
            return abs(self.difference - candidate) - width * math.sqrt(self._variance_of_difference(candidate))

        has_difference = excess(0.0) > 0
        found = []
        for sign in (-1, 1):
            limit = self.difference + sign * _MAX_STEPS_AWAY * steps[1]
            if has_difference and self.difference * sign < 0:
                limit = 0.0
            # Near a ratio of 0, the excess may be above 0 only for a short way, which long steps would miss.
            bound = find_bound(excess, self.difference, steps[0] / 16, limit, growth=1.05)
            # Where a multiple has no bound, the treatment may have added to values.
            found.append(self.difference + sign * steps[1] if bound == limit and limit else bound)
        return found[0], found[1]

    def bounds_of_lift(self, width: float) -> Bounds | None:
        """Return the interval of the lift. None stands for numbers that are too large to compute with.

        For each stratum, the variance that is larger at the bound counts there. A bound is computed from the ones that
        are larger at the bound before, and so moves away from the estimate until they stay the same.
        """
        sides: list[float | None] = []
        for side in (0, 1):
            bounds = self._bounds_of_lift(width, side)
            if bounds is None:
                return None
            sides.append(bounds[side])
        return sides[0], sides[1]

    def _bounds_of_lift(self, width: float, side: int) -> Bounds | None:
        size, sign = abs(self.control), math.copysign(1.0, self.control)
        difference = self.difference / size
        variance = self._larger_at(1 + sign * difference)
        while True:
            bounds = fieller.bounds(
                difference, sign, variance.in_units_of(size), width, is_non_negative=self.is_non_negative
            )
            if bounds is None or (bound := bounds[side]) is None:
                return bounds
            larger = self._larger_at(1 + sign * bound)
            if larger == variance or larger.at(1 + sign * bound) <= variance.at(1 + sign * bound):
                return bounds
            variance = larger

    def _welch(self) -> float:
        return math.fsum(
            part.weight * part.weight * (part.treatment.squared_error + part.control.squared_error)
            for part in self.strata
        )

    def _variance_of_difference(self, difference: float) -> float:
        ratio = 1 + difference / self.control if self.control > 0 else 0.0
        return math.fsum(part.weight * part.weight * part.of_difference(ratio) for part in self.strata)

    def _larger_at(self, ratio: float) -> Quadratic:
        larger = [max((part.welch(), part.pooled_in_ratio()), key=lambda one: one.at(ratio)) for part in self.strata]
        return Quadratic(
            *(
                math.fsum(part.weight * part.weight * value for part, value in zip(self.strata, values, strict=True))
                for values in zip(*((one.constant, one.product, one.square) for one in larger), strict=True)
            )
        )
