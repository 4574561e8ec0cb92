"""The tables of the app: experiments, metrics, exposures, and the totals computed from events."""

from __future__ import annotations

from experiments.models.aggregates import AggregateState, DailyChange, SeriesUser, UserTotal, VariantSums
from experiments.models.comment import COMMENT_LENGTH, Comment
from experiments.models.experiment import (
    LOOKBACK_DAYS,
    MINIMUM_DAYS,
    REOPENABLE_FOR,
    WHOLE,
    AnalysisMethod,
    Calibration,
    Experiment,
    ExperimentQuerySet,
    Status,
)
from experiments.models.exposure import Exposure, Origin
from experiments.models.metric import Direction, Metric, MetricType, Role
from experiments.models.outcome import StoredOutcome

__all__ = [
    "COMMENT_LENGTH",
    "LOOKBACK_DAYS",
    "MINIMUM_DAYS",
    "REOPENABLE_FOR",
    "WHOLE",
    "AggregateState",
    "AnalysisMethod",
    "Calibration",
    "Comment",
    "DailyChange",
    "Direction",
    "Experiment",
    "ExperimentQuerySet",
    "Exposure",
    "Metric",
    "MetricType",
    "Origin",
    "Role",
    "SeriesUser",
    "Status",
    "StoredOutcome",
    "UserTotal",
    "VariantSums",
]
