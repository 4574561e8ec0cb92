"""Which windows a stop would cut off, by metric."""

from __future__ import annotations

from dataclasses import dataclass

from experiments.results.types import Results
from experiments.stats.numbers import format_count


@dataclass(frozen=True, slots=True)
class CutOff:
    """The users of a metric whose windows are open, out of all exposed users."""

    metric: str
    users: int
    exposed: int

    @property
    def sentence(self) -> str:
        """Return `purchase: the windows of 2,917 of 2,966 users are open.`"""
        are = "is" if self.exposed == 1 else "are"
        return f"{self.metric}: the windows of {self.users:,} of {format_count(self.exposed, 'user')} {are} open."

    @property
    def clause(self) -> str:
        """Return `purchase: it cuts off the windows of 2,917 of 2,966 users`, without a full stop."""
        return f"{self.metric}: it cuts off the windows of {self.users:,} of {format_count(self.exposed, 'user')}"


def find_cut_off(results: Results) -> list[CutOff]:
    """Return the metrics of which a stop at the moment of these results cuts off windows.

    A fixed analysis that was read has none: nothing that happens later changes it.
    """
    if results.read_at is not None:
        return []
    found = [
        CutOff(
            metric.key,
            sum(variant.immature_users for variant in metric.variants),
            sum(variant.users for variant in metric.variants),
        )
        for metric in results.metrics
    ]
    return [each for each in found if each.users]
