"""Quantiles of the values of events, with standard errors that count users as clusters of events.

Many events may have the same value: counts, whole seconds, prices. A plain quantile stands still while the share of
events below it changes, and then jumps to the next value, so that no standard error describes it. Here, the events of a
value are spread evenly around it, at most half of the way to the nearest value of any compared group. The quantile of
the spread values moves whenever the share does. It is within this reach of the plain one, and between the smallest and
the greatest value.

The share of events below the quantile has a standard error sigma by the delta method over users. The quantiles at p - z
sigma and p + z sigma are the ends of an interval. The farther end is taken to be z standard errors away, because the
distances differ if values have a gap near the quantile. Simulated over twenty looks, with ties and gaps of many kinds,
the always-valid test then finds a difference between equal groups in fewer than 5 % of cases.

The computation asks for few facts about the events of each group (`Groups`). So a database can count events without
handing out all values. `EventValues` answers from values in memory.

Source: Liu, Sun, Varshney & Xu 2019, "Large-scale online experimentation with quantile metrics".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, sqrt
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from experiments.stats.lifts import Z_95
from experiments.stats.types import Quantile

MIN_EVENTS = 10
"""An error can be estimated only with this many events of different users on each side of the quantile."""
ROUNDING = 1e-12
"""Values that differ by less than this share are the same."""

Numbers = NDArray[np.float64]
Positions = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Tie:
    """The events of a group that have one value, which is spread from `lower` to `upper`.

    `before` is the number of the group's events with a smaller value; `until` includes those of the value. Values that
    may differ by rounding only, such as 0.3 and 0.1 + 0.2, are one value: the greatest of them. `least` is the
    smallest.
    """

    before: int
    until: int
    least: float
    value: float
    lower: float
    upper: float


@dataclass(frozen=True, slots=True)
class Products:
    """Sums over the users of a group. A user has `n` events, `b` before a tie and `t` within it."""

    bb: int
    bt: int
    tt: int
    bn: int
    tn: int

    def squares(self, part: Fraction, p: Fraction, alike: int) -> Fraction:
        """Return Σ (b + part t - p n)². `alike` is Σ n²."""
        of_below = self.bb + 2 * part * self.bt + part * part * self.tt
        return of_below - 2 * p * (self.bn + part * self.tn) + p * p * alike


@dataclass(frozen=True, slots=True)
class Size:
    """The numbers of users and of events of a group. `alike` sums the squared numbers of events of each user."""

    users: int
    events: int = 0
    alike: int = 0


class Groups(Protocol):
    """Groups of users, by their index in `sizes`. Values are spread alike in all groups that are compared."""

    @property
    def sizes(self) -> Sequence[Size]: ...

    def find_ties(self, ranks: Sequence[tuple[int, Fraction]]) -> Sequence[Tie]:
        """Return where each of these ranks falls among the events of its group, which has some.

        A rank is a number of events, from 0 for the smallest possible value to all.
        """
        ...

    def multiply(self, ties: Mapping[int, Tie]) -> Mapping[int, Products]:
        """Return the products of one tie of each of these groups."""
        ...


@dataclass(frozen=True, slots=True)
class _Place:
    """A rank within a tie. `part` is the share of the tie's events below it."""

    tie: Tie
    part: Fraction

    @classmethod
    def of(cls, tie: Tie, rank: Fraction) -> _Place:
        return cls(tie, (rank - tie.before) / (tie.until - tie.before))

    def is_whole(self, size: Size) -> bool:
        """Return whether all events of the group are in the tie, so that there is nothing to spread or to estimate."""
        return self.tie.until - self.tie.before >= size.events

    def value_in(self, size: Size) -> float:
        return self.tie.value if self.is_whole(size) else self.value

    @property
    def value(self) -> float:
        return self.tie.lower + float(self.part) * (self.tie.upper - self.tie.lower)


def find_quantiles(share: float, groups: Groups) -> list[Quantile]:
    """Return the quantile of each group. `share` is the share of events below it."""
    p, sizes = Fraction(str(share)), groups.sizes
    places = _find_places(p, groups)
    spread = {group: place for group, place in places.items() if not place.is_whole(sizes[group])}
    errors = _errors(p, groups, {group: place for group, place in spread.items() if _has_error(p, sizes[group])})
    values = {group: place.value_in(sizes[group]) for group, place in places.items()}
    return [
        Quantile(size.users, size.events, values.get(group, 0.0), errors.get(group, 0.0) ** 2)
        for group, size in enumerate(sizes)
    ]


def find_values(share: float, groups: Groups) -> list[float | None]:
    """Return the quantile of each group without its error, which takes longer; None without events."""
    places = _find_places(Fraction(str(share)), groups)
    return [places[group].value_in(size) if group in places else None for group, size in enumerate(groups.sizes)]


def _find_places(p: Fraction, groups: Groups) -> Mapping[int, _Place]:
    """Return the place of the quantile in each group that has events."""
    ranks = [(group, p * size.events) for group, size in enumerate(groups.sizes) if size.events]
    ties = groups.find_ties(ranks)
    return {group: _Place.of(tie, rank) for (group, rank), tie in zip(ranks, ties, strict=True)}


def _has_error(p: Fraction, size: Size) -> bool:
    # As many events of different users would be worth the square of the events divided by `alike`.
    return size.events**2 * min(p, 1 - p) >= MIN_EVENTS * size.alike


def _errors(p: Fraction, groups: Groups, places: Mapping[int, _Place]) -> Mapping[int, float]:
    """Return the standard error of the quantile of each group at its place."""
    products = groups.multiply({group: place.tie for group, place in places.items()})
    ranks = []
    for group, place in places.items():
        size = groups.sizes[group]
        squares = products[group].squares(place.part, p, size.alike)
        sigma = sqrt(squares * size.users / (size.users - 1)) / size.events
        for end in (-1, 1):
            ranks.append((group, Fraction(min(max(float(p) + end * Z_95 * sigma, 0.0), 1.0)) * size.events))
    errors = dict.fromkeys(places, 0.0)
    for (group, rank), tie in zip(ranks, groups.find_ties(ranks), strict=True):
        distance = abs(_Place.of(tie, rank).value - places[group].value)
        errors[group] = max(errors[group], distance / Z_95)
    return errors


@dataclass(frozen=True, slots=True)
class EventValues:
    """The values of events in ascending order, and the index of the user of each event."""

    values: Numbers
    owners: Positions

    @classmethod
    def of(cls, values: Sequence[float] | Numbers, owners: Sequence[int] | Positions) -> EventValues:
        """Sort values that are in any order."""
        of_events = np.asarray(values, float)
        order = np.argsort(of_events, kind="stable")
        return cls(of_events[order], np.asarray(owners, np.intp)[order])

    def chosen(self, is_chosen: NDArray[np.bool_]) -> EventValues:
        return EventValues(self.values[is_chosen], self.owners[is_chosen])

    def grouped(self, groups: Positions, number: int) -> list[tuple[int, EventValues]]:
        """Return the number of users and the events of each group.

        `groups` has the group of each user, from 0, or -1 for users who are in none.
        """
        users, of_events = np.bincount(groups[groups >= 0], minlength=number), groups[self.owners]
        return [(int(users[group]), self.chosen(of_events == group)) for group in range(number)]


NO_EVENTS = EventValues.of([], [])


def quantiles_of(share: float, groups: Sequence[tuple[int, EventValues]]) -> list[Quantile]:
    """Return the quantile of each group: a number of users, some of whom have events."""
    return find_quantiles(share, EventGroups(groups)) if groups else []


class EventGroups:
    """Groups whose values are in memory, all compared with each other."""

    def __init__(self, groups: Sequence[tuple[int, EventValues]]) -> None:
        self._events = [events for _, events in groups]
        self._of_users = [np.bincount(events.owners) for events in self._events]
        self.sizes = [
            Size(users, len(events.values), int(of_users @ of_users))
            for (users, events), of_users in zip(groups, self._of_users, strict=True)
        ]
        different = np.unique(np.concatenate([events.values for events in self._events]))
        ends = np.diff(different, append=np.inf) > ROUNDING * np.abs(different)
        self._values, self._least = different[ends], different[np.concatenate([[True], ends[:-1]])[: len(ends)]]
        gaps = np.diff(self._values)
        reach = np.minimum(np.append(np.inf, gaps), np.append(gaps, np.inf)) / 2
        self._lower, self._upper = self._values - reach, self._values + reach
        # No quantile is smaller or greater than all values.
        self._lower[:1], self._upper[-1:] = self._values[:1], self._values[-1:]
        self._until = [np.searchsorted(events.values, self._values, side="right") for events in self._events]

    def find_ties(self, ranks: Sequence[tuple[int, Fraction]]) -> Sequence[Tie]:
        return [self._tie(group, rank) for group, rank in ranks]

    def _tie(self, group: int, rank: Fraction) -> Tie:
        until = self._until[group]
        index = int(np.searchsorted(until, max(ceil(rank), 1)))
        before = int(until[index - 1]) if index else 0
        bounds = (float(of[index]) for of in (self._least, self._values, self._lower, self._upper))
        return Tie(before, int(until[index]), *bounds)

    def multiply(self, ties: Mapping[int, Tie]) -> Mapping[int, Products]:
        return {group: self._products(group, tie) for group, tie in ties.items()}

    def _products(self, group: int, tie: Tie) -> Products:
        owners, n = self._events[group].owners, self._of_users[group]
        b = np.bincount(owners[: tie.before], minlength=len(n))
        t = np.bincount(owners[tie.before : tie.until], minlength=len(n))
        return Products(*(int(one @ other) for one, other in ((b, b), (b, t), (t, t), (b, n), (t, n))))
