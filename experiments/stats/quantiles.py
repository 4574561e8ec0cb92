"""Quantiles of the values of events, with standard errors that count users as clusters of events.

Many events may have the same value: counts, whole seconds, prices. A plain quantile then stands still
while the share of events below it changes, and jumps from one value to the next, so that no standard
error describes it. Here the events of a value are spread evenly around it, at most half of the way to
the nearest value of any compared group. The quantile of the spread values moves whenever that share
does, and lies within this reach of the plain one, between the smallest and the greatest value.

The share of events below the quantile has a standard error sigma by the delta method over users. The
quantiles at p - z sigma and p + z sigma are its ends, and the farther end is z standard errors away.
Where values have a gap near the quantile, the two distances differ, and only the farther one tells.
Simulated over twenty looks, with ties and gaps of many kinds, the always-valid test then finds a
difference between equal groups in fewer than 5 % of cases.

Source: Liu, Sun, Varshney & Xu 2019, "Large-scale online experimentation with quantile metrics".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, sqrt

import numpy as np
from numpy.typing import NDArray

from experiments.stats.lifts import Z_95
from experiments.stats.samples import without_rounding
from experiments.stats.types import Quantile

LEAST_EVENTS = 10
"""The fewest events of different users on each side of a quantile whose error can be estimated."""
ROUNDING = 1e-12
"""Values that are nearer to each other than this, as a share of the value, are the same."""

Numbers = NDArray[np.float64]
Positions = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class EventValues:
    """The values of events in ascending order, and the number of the user of each event."""

    values: Numbers
    owners: Positions

    @classmethod
    def of(cls, values: Sequence[float] | Numbers, owners: Sequence[int] | Positions) -> EventValues:
        """Take the values in any order."""
        of_events = np.asarray(values, float)
        order = np.argsort(of_events, kind="stable")
        return cls(of_events[order], np.asarray(owners, np.intp)[order])

    def chosen(self, is_chosen: NDArray[np.bool_]) -> EventValues:
        """Return some of the events."""
        return EventValues(self.values[is_chosen], self.owners[is_chosen])

    def grouped(self, groups: Positions, number: int) -> list[tuple[int, EventValues]]:
        """Return the users and their events in each of this many groups.

        `groups` has the group of each user, from 0, or -1 for users who are in none.
        """
        users, of_events = np.bincount(groups[groups >= 0], minlength=number), groups[self.owners]
        return [(int(users[group]), self.chosen(of_events == group)) for group in range(number)]


NO_EVENTS = EventValues.of([], [])


def quantiles_of(share: float, groups: Sequence[tuple[int, EventValues]]) -> list[Quantile]:
    """Return the quantile of each group: a number of users, some of whom have events.

    `share` is that of the events below the quantile. Values are spread alike in all groups, so that
    these can be compared.
    """
    ties = _Ties.of(np.concatenate([events.values for _, events in groups])) if groups else None
    p = Fraction(str(share))
    return [
        _Spread(p, users, events, ties).quantile() if ties and len(events.values) else Quantile(n=users)
        for users, events in groups
    ]


@dataclass(frozen=True, slots=True)
class _Ties:
    """The different values of all groups in ascending order, and the bounds between which each is spread.

    Values that may differ by rounding alone, such as 0.3 and 0.1 + 0.2, are one value: the greatest of them.
    """

    values: Numbers
    lower: Numbers
    upper: Numbers

    @classmethod
    def of(cls, values: Numbers) -> _Ties:
        different = np.unique(values)
        different = different[np.diff(different, append=np.inf) > ROUNDING * np.abs(different)]
        gaps = np.diff(different)
        reach = np.minimum(np.append(np.inf, gaps), np.append(gaps, np.inf)) / 2
        lower, upper = different - reach, different + reach
        # No quantile is smaller or greater than all values.
        lower[:1], upper[-1:] = different[:1], different[-1:]
        return cls(different, lower, upper)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a rank falls among the values of a group.

    `before` are the events of smaller values, `until` these and those of the same value, and `part` is
    the share of the latter that lies below the rank.
    """

    before: int
    until: int
    part: float
    value: float


class _Spread:
    """The events of one group, with their values spread."""

    def __init__(self, p: Fraction, users: int, events: EventValues, ties: _Ties) -> None:
        self._p, self._users, self._events, self._ties = p, users, events, ties
        self._until = np.searchsorted(events.values, ties.values, side="right")

    def quantile(self) -> Quantile:
        number = len(self._events.values)
        first = int(np.searchsorted(self._until, 1))
        if self._until[first] == number:  # nothing varies, so there is nothing to spread or to estimate
            return Quantile(self._users, number, float(self._ties.values[first]))
        place = self._place(self._p * number)
        error = self._error(place)
        return Quantile(self._users, number, place.value, error * error)

    def _place(self, rank: Fraction | float) -> _Place:
        """Return the place of a rank, from 0 for the smallest possible value to the number of events."""
        index = int(np.searchsorted(self._until, max(ceil(rank), 1)))
        before, until = int(self._until[index - 1]) if index else 0, int(self._until[index])
        part = float((rank - before) / (until - before))
        lower, upper = self._ties.lower[index], self._ties.upper[index]
        return _Place(before, until, part, float(lower + part * (upper - lower)))

    def _error(self, place: _Place) -> float:
        """Return the standard error of the quantile at this place; 0 where it cannot be estimated."""
        owners, p, number = self._events.owners, float(self._p), len(self._events.values)
        of_users = np.bincount(owners)
        below = np.bincount(owners[: place.before], minlength=len(of_users)) + place.part * np.bincount(
            owners[place.before : place.until], minlength=len(of_users)
        )
        alike = int((of_users * of_users).sum())
        # As many events of different users would be worth `number` squared by `alike`.
        if number * number * min(self._p, 1 - self._p) < LEAST_EVENTS * alike:
            return 0.0
        squares = without_rounding(float(((below - p * of_users) ** 2).sum()), self._users, alike)
        sigma = sqrt(squares * self._users / (self._users - 1)) / number
        ends = (self._place(min(max(p + sign * Z_95 * sigma, 0.0), 1.0) * number).value for sign in (-1, 1))
        return max(abs(end - place.value) for end in ends) / Z_95
