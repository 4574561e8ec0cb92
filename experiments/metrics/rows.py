"""Metrics as documents: what the columns of a row are called in JSON."""

from __future__ import annotations

from config.documents import Document
from experiments.metrics.definition import Definition
from experiments.models import Metric

COLUMNS = {
    "type": "type",
    "event": "event",
    "property": "property",
    "currency": "currency",
    "denominator": "denominator",
    "windowHours": "window_hours",
    "delayHours": "delay_hours",
    "fromDay": "from_day",
    "toDay": "to_day",
    "capValue": "cap_value",
    "capPercentile": "cap_percentile",
    "direction": "direction",
    "role": "role",
}
"""The column of each property that a metric's meaning consists of."""


def meaning(metric: Metric) -> Document:
    """What a metric computes: all of it but its key, its description and its version."""
    return {name: getattr(metric, column) for name, column in COLUMNS.items()}


def definition_of(metric: Metric) -> Definition:
    return Definition.parse({"key": metric.key, "version": metric.version, **meaning(metric)})
