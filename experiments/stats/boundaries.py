"""The boundaries of the always-valid test: how many standard errors an estimate may be away from no difference.

The mixture holds for any number of users. A plan says how many will come, so its boundary is tighter up to there: a
Brownian motion that is observed up to the planned information crosses c / √t somewhere with the probability that its
absolute value ever exceeds c, where t is the share of the information so far. The plan's boundary has 90 % of alpha,
and the mixture the rest, which also covers what comes after the planned users. By the union bound, both together err at
most alpha of the time, at every look.

Where tests are corrected, alpha is divided between them. The mixture stays tuned to the alpha of a single test. So the
p-value is below any alpha exactly where the estimate is outside the boundary at this alpha.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

from experiments.stats import sequential

OF_PLAN, OF_MIXTURE = 0.9, 0.1
"""The parts of alpha that the plan's boundary and the mixture spend."""
_MAX_CRITICAL = 40.0
"""No chance that can be represented is exceeded beyond."""
_HALVINGS = 80


class Boundary(Protocol):
    """The boundary at one look."""

    def width(self, alpha: float) -> float:
        """Return the distance, in standard errors, beyond which a test at this level rejects."""
        ...

    def p_value(self, z: float) -> float:
        """Return the smallest level at which an estimate `z` standard errors away is rejected."""
        ...


@dataclass(frozen=True, slots=True)
class Mixture:
    """The confidence sequence of `sequential`, for both variants together. `alpha` only tunes it."""

    users: int
    tuning_size: float
    alpha: float

    def width(self, alpha: float) -> float:
        return _width(self.users, self.tuning_size, self.alpha, alpha)

    def p_value(self, z: float) -> float:
        return float(sequential.p_value(z, self.users, tuning_size=self.tuning_size, alpha=self.alpha))


@lru_cache(maxsize=1024)  # most metrics of an analysis count the same users
def _width(users: int, tuning_size: float, tuning_alpha: float, alpha: float) -> float:
    tuning = {"tuning_size": tuning_size, "alpha": tuning_alpha}
    return float(sequential.half_width(1.0, users, **tuning, comparisons=tuning_alpha / alpha))


@dataclass(frozen=True, slots=True)
class Planned:
    """The boundary of a plan and a mixture, which divide alpha.

    `share` is the part of the planned information that there is, above 0 and at most 1. It is None past the plan, where
    the mixture alone goes on.
    """

    share: float | None
    mixture: Mixture

    @classmethod
    def at(cls, share: float | None, users: int, planned_users: float, alpha: float) -> Planned:
        """Return the boundary for these users of both variants, of whom so many are planned."""
        return cls(share, Mixture(users, planned_users, OF_MIXTURE * alpha))

    def width(self, alpha: float) -> float:
        of_mixture = self.mixture.width(OF_MIXTURE * alpha)
        if self.share is None:
            return of_mixture
        return min(critical_value(OF_PLAN * alpha) / math.sqrt(self.share), of_mixture)

    def p_value(self, z: float) -> float:
        of_mixture = self.mixture.p_value(z) / OF_MIXTURE
        of_plan = 1.0 if self.share is None else chance_to_exceed(abs(z) * math.sqrt(self.share)) / OF_PLAN
        return min(of_plan, of_mixture, 1.0)


def chance_to_exceed(level: float) -> float:
    """Return the chance that the absolute value of a Brownian motion exceeds a level somewhere from time 0 to 1.

    Of the two series for it, each is used where it converges at once and loses no digits. Source: Feller, An
    Introduction to Probability Theory and Its Applications II, 1971, X.5.
    """
    if level <= 0:
        return 1.0
    if level > 1:
        return math.fsum(2 * (-1) ** k * math.erfc((2 * k + 1) * level / math.sqrt(2)) for k in range(4))
    terms = ((-1) ** k / (2 * k + 1) * math.exp(-((math.pi * (2 * k + 1) / level) ** 2) / 8) for k in range(4))
    return 1 - 4 / math.pi * math.fsum(terms)


@lru_cache(maxsize=256)
def critical_value(chance: float) -> float:
    """Return the level that a Brownian motion exceeds with this chance, which is above 0 and below 1."""
    low, high = 0.0, _MAX_CRITICAL
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if chance_to_exceed(middle) > chance else (low, middle)
    return high
