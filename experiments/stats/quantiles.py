"""Quantiles of the values of events, where users are clusters of events: of any group of users, one after another.

Source: Liu, Sun, Varshney & Xu 2019, "Large-scale online experimentation with quantile metrics".
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, sqrt
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from experiments.stats.types import Quantile

_Z = NormalDist().inv_cdf(0.975)


@dataclass(frozen=True, slots=True)
class EventValues:
    """The values of the events of some users, in ascending order, and the position of the user of each event."""

    share: Fraction
    users: int
    values: NDArray[np.float64]
    owners: NDArray[np.intp]

    @classmethod
    def of(cls, share: float, users: int, values: NDArray[np.float64], owners: NDArray[np.intp]) -> EventValues:
        """Take the values in any order. `share` is that of the events below the quantile."""
        order = np.argsort(values, kind="stable")
        return cls(Fraction(str(share)), users, values[order], owners[order])

    def quantile(self, positions: NDArray[np.intp]) -> Quantile:
        """Return the quantile of the events of the users at these positions.

        It is the value at the rank ceil(p · number of events). The share of events at or below it has a
        standard error by the delta method over users. The quantiles at p minus and plus z such errors
        are 2 z standard errors apart.
        """
        users = len(positions)
        is_chosen = np.zeros(self.users, bool)
        is_chosen[positions] = True
        chosen = is_chosen[self.owners]
        values, owners = self.values[chosen], self.owners[chosen]
        events = len(values)
        if not events:
            return Quantile(n=users)
        value = float(values[ceil(self.share * events) - 1])
        return Quantile(users, events, value, self._error(users, values, owners, value) ** 2)

    def _error(self, users: int, values: NDArray[np.float64], owners: NDArray[np.intp], value: float) -> float:
        if users < 2:
            return 0.0
        p, events = float(self.share), len(values)
        number = np.bincount(owners, minlength=self.users)
        below = np.bincount(owners[values <= value], minlength=self.users)
        squares = float(((below - p * number) ** 2).sum())
        spread = _Z * sqrt(squares * users / (users - 1)) / events
        low = _at_rank(values, (p - spread) * events)
        high = _at_rank(values, (p + spread) * events)
        return (high - low) / (2 * _Z)


def _at_rank(values: NDArray[np.float64], rank: float) -> float:
    """Return the first value whose rank, from 1, is at least this; the last one where there is none."""
    return float(values[min(max(ceil(rank), 1), len(values)) - 1])
