"""The tables of the app: experiments, metrics, exposures, and the values and sums computed from events."""

from __future__ import annotations

from experiments.models.experiment import (
    COMMENT_LENGTH,
    LOOKBACK_DAYS,
    MINIMUM_DAYS,
    REOPENABLE_FOR,
    WHOLE,
    AnalysisMethod,
    Calibration,
    Comment,
    Experiment,
    ExperimentQuerySet,
    Status,
)
from experiments.models.exposure import Exposure, Origin
from experiments.models.metric import Direction, Metric, MetricType, Role
from experiments.models.results import EXPOSURE, DailySums, DayValue, ResultState, StoredOutcome, UserValue, VariantSums

__all__ = [
    "COMMENT_LENGTH",
    "EXPOSURE",
    "LOOKBACK_DAYS",
    "MINIMUM_DAYS",
    "REOPENABLE_FOR",
    "WHOLE",
    "AnalysisMethod",
    "Calibration",
    "Comment",
    "DailySums",
    "DayValue",
    "Direction",
    "Experiment",
    "ExperimentQuerySet",
    "Exposure",
    "Metric",
    "MetricType",
    "Origin",
    "ResultState",
    "Role",
    "Status",
    "StoredOutcome",
    "UserValue",
    "VariantSums",
]
