"""The tables of the app: experiments, metrics, exposures, and the totals computed from events."""

from __future__ import annotations

from experiments.models.aggregates import AggregateState, UserTotal, VariantSums
from experiments.models.experiment import REOPENABLE_FOR, WHOLE, Calibration, Experiment, ExperimentQuerySet, Status
from experiments.models.exposure import Exposure, Origin
from experiments.models.metric import Direction, Metric, MetricType, Role

__all__ = [
    "REOPENABLE_FOR",
    "WHOLE",
    "AggregateState",
    "Calibration",
    "Direction",
    "Experiment",
    "ExperimentQuerySet",
    "Exposure",
    "Metric",
    "MetricType",
    "Origin",
    "Role",
    "Status",
    "UserTotal",
    "VariantSums",
]
