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
from functools import cached_property

from experiments.stats import fieller
from experiments.stats.fieller import Bounds, Quadratic
from experiments.stats.roots import find_bound
from experiments.stats.samples import Sample

_SHORT = 1 / 8
"""The longest step towards a ratio of 0, as a share of the way: the pooled variance has no end there."""
_MAX_STEPS_AWAY = 1_000.0
"""No bound of a difference is searched farther from the estimate, in half-widths without a difference."""


@dataclass(frozen=True)
class MeansOfStratum:
    """Both variants in a stratum, each with two users at least. The weights of strata add up to 1.

    `shared` is a squared error that both means share (see `cuped.AdjustedStratum`).
    """

    weight: float
    treatment: Sample
    control: Sample
    shared: float = 0.0
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

    def variances(self, size: float) -> tuple[Quadratic, Quadratic]:
        """Return Welch's variance and the pooled one, of means in units of `size` and with the weight of the stratum.

        If the treatment multiplies values, the pooled variance depends on the ratio in all its parts.
        """
        unit = self.weight / size
        treatment, control, shared = self.treatment, self.control, unit * (unit * self.shared)
        of_treatment, of_control = unit * (unit * treatment.squared_error), unit * (unit * control.squared_error)
        welch = Quadratic(of_treatment + shared, shared, of_control + shared)
        yy, xy, xx = (unit * (unit * part) for part in self._of_user)
        if not self.is_scaled:
            variance = yy - 2 * xy + xx
            return welch, Quadratic(variance / treatment.n + shared, shared, variance / control.n + shared)
        part = 1 / treatment.n + 1 / control.n
        return welch, Quadratic(part * yy + shared, part * xy + shared, part * xx + shared)

    def variance_of_difference(self, ratio: float) -> float:
        """Return the larger variance of the difference of the means, if the true means have this ratio."""
        (yy, xy, xx), welch = self._of_user, self._welch
        if ratio <= 0 or not self.is_scaled:
            ratio = 1.0
        of_user = (yy / ratio - 2 * xy) / ratio + xx
        pooled = of_user * (ratio * ratio / self.treatment.n + 1 / self.control.n)
        return pooled if pooled > welch else welch

    @cached_property
    def _welch(self) -> float:
        return self.treatment.squared_error + self.control.squared_error

    @cached_property
    def _of_user(self) -> tuple[float, float, float]:
        """Return the parts of the pooled variance of a user of the control: `yy` / r² - 2 `xy` / r + `xx`.

        They are sums of squares and products of the treatment's values, of what history explains of them, and of the
        control's values, each divided by the degrees of freedom of both.
        """
        treatment, control = self.treatment, self.control
        freedom = treatment.n + control.n - 2
        of_treatment, of_control = (treatment.n - 1) / freedom, (control.n - 1) / freedom
        yy = treatment.variance + 2 * treatment.explained_product - treatment.explained_square
        xx = of_treatment * treatment.explained_square + of_control * control.variance
        return of_treatment * yy, of_treatment * treatment.explained_product, xx


@dataclass(frozen=True)
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
        error = self._error_of_difference(difference) if difference else self._error_without_difference
        return (self.difference - difference) / error

    def z_of_ratio(self, ratio: float) -> float:
        """Return how many standard errors the estimate is above a ratio of the means."""
        return (self.treatment - ratio * self.control) / self._size / math.sqrt(self._larger_at(ratio).at(ratio))

    def alike(self, factor: float) -> Means:
        """Return the test of so many times the users, without a difference in any stratum."""
        strata = [part.alike(factor) for part in self.strata]
        mean = math.fsum(part.weight * part.control.mean for part in strata)
        return Means(mean, mean, strata, self.is_non_negative)

    def bounds_of_difference(self, width: float) -> tuple[float, float]:
        """Return the interval of the differences that are at most `width` standard errors away."""
        difference, without = self.difference, width * self._error_without_difference
        if self.control <= 0 or not any(part.is_scaled for part in self.strata):
            return difference - without, difference + without

        nothing = -self.control

        def half_width(candidate: float) -> float:
            return width * self._error_of_difference(candidate) if candidate > nothing else math.inf

        step, found = width * self._error_at_difference, []
        for sign in (-1, 1):
            added = difference + sign * without
            if sign * added < 0:
                found.append(find_bound(half_width, difference, step, 0.0))
                continue
            limit = nothing if sign < 0 else difference + _MAX_STEPS_AWAY * without
            bound = find_bound(half_width, difference, step, limit, most=_SHORT if sign < 0 else 1.0)
            if bound == limit:
                # No multiple is the bound. The treatment adds to values, by the larger variance at the bound.
                farther = max(without, width * self._error_of_difference(added))
                bound = min(nothing, added) if sign < 0 else difference + farther
            # No difference is inside, even if a candidate between it and the estimate is not.
            found.append(min(bound, 0.0) if sign < 0 else max(bound, 0.0))
        return found[0], found[1]

    def bounds_of_lift(self, width: float) -> Bounds | None:
        """Return the interval of the lift. None stands for numbers that are too large to compute with.

        For each stratum, the variance that is larger at the bound counts there. A bound is computed from the ones that
        are larger at the bound before, and moves away from the estimate until they stay the same.
        """
        sign = math.copysign(1.0, self.control)
        difference = self.difference / self._size
        variance = self._larger_at(1 + sign * difference)
        bounds = fieller.bounds(difference, sign, variance, width, is_non_negative=self.is_non_negative)
        if bounds is None:
            return None
        ends: list[float | None] = []
        for side, end in enumerate(bounds):
            used = variance
            while end is not None:
                larger = self._larger_at(1 + sign * end)
                if larger is used:
                    break
                moved = fieller.bounds(difference, sign, larger, width, is_non_negative=self.is_non_negative)
                if moved is None:
                    return None
                farther = moved[side]
                if farther is not None and (farther >= end if side == 0 else farther <= end):
                    break
                used, end = larger, farther
            ends.append(end)
        return ends[0], ends[1]

    @property
    def _size(self) -> float:
        return abs(self.control) or 1.0

    @cached_property
    def _variances(self) -> Sequence[tuple[Quadratic, Quadratic]]:
        return [part.variances(self._size) for part in self.strata]

    @cached_property
    def _error_without_difference(self) -> float:
        return self._error_of_difference(0.0)

    @cached_property
    def _error_at_difference(self) -> float:
        """Return the standard error of the difference under the difference that was seen."""
        return self._error_of_difference(self.difference)

    def _error_of_difference(self, difference: float) -> float:
        ratio, squared = 1 + difference / self.control if self.control > 0 else 0.0, 0.0
        for part in self.strata:
            squared += part.weight * part.weight * part.variance_of_difference(ratio)
        return math.sqrt(squared)

    def _larger_at(self, ratio: float) -> Quadratic:
        larger = [pooled if pooled.at(ratio) > welch.at(ratio) else welch for welch, pooled in self._variances]
        return larger[0] if len(larger) == 1 else fieller.add(larger)
