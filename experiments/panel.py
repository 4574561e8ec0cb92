"""The results of an experiment as people look at them: shares in percent, bars, and as of when."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from experiments.models import Experiment, Status
from experiments.results import Anomalies, VariantResult, compute_results, count_anomalies


@dataclass(frozen=True, slots=True)
class VariantRow:
    """One variant. `bar` is the length of its bar, 0 to 100: the best variant's is full, and all start at zero."""

    key: str
    weight: float
    result: VariantResult
    bar: float
    is_control: bool

    @property
    def rate(self) -> str:
        return f"{100 * self.result.conversion:.2f} %" if self.result.sample_size else "no users"

    @property
    def users(self) -> str:
        return f"{self.result.sample_size:,}"

    @property
    def conversions(self) -> str:
        return f"{self.result.conversions:,}"


@dataclass(frozen=True, slots=True)
class Panel:
    """What a page shows of an experiment that was started. `anomalies` is None where they were not asked for."""

    experiment: Experiment
    rows: Sequence[VariantRow]
    as_of: datetime
    anomalies: Anomalies | None = None

    @property
    def metric(self) -> str:
        return self.experiment.metrics[0] if self.experiment.metrics else ""

    @property
    def users(self) -> str:
        return f"{sum(row.result.sample_size for row in self.rows):,}"


def results_panel(experiment: Experiment, at: datetime) -> Panel | None:
    """The whole panel; None for a draft, which has nothing to show."""
    if experiment.status == Status.DRAFT:
        return None
    return Panel(experiment, variant_rows(experiment), at, count_anomalies(experiment))


def results_in_brief(experiment: Experiment, at: datetime) -> Panel:
    """The panel without what takes longer to find out."""
    return Panel(experiment, variant_rows(experiment), at)


def variant_rows(experiment: Experiment) -> list[VariantRow]:
    results = compute_results(experiment)
    best = max((result.conversion for result in results.values()), default=0) or 1
    return [
        VariantRow(
            key=variant["key"],
            weight=variant["weight"],
            result=results[variant["key"]],
            bar=round(100 * results[variant["key"]].conversion / best, 2),
            is_control=at == 0,
        )
        for at, variant in enumerate(experiment.variants)
    ]
