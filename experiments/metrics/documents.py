"""Metrics as documents: what the columns of a row are called in JSON.

What the metrics of an experiment compute: as they were defined at its start, or for a draft as they stand now."""

from __future__ import annotations

from config.documents import Document
from experiments.metrics.definition import Definition, undefined
from experiments.models import Experiment, Metric, Status

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


def definitions_of(experiment: Experiment) -> list[Definition]:
    """One definition for each of the experiment's metrics, in their order. A started one asks no database."""
    if experiment.status == Status.DRAFT:
        return current_definitions(experiment.metrics)
    if not experiment.definitions:  # it was started before metrics could be defined
        return [undefined(name) for name in experiment.metrics]
    return [Definition.parse(document) for document in experiment.definitions]


def outcome_names(experiment: Experiment) -> frozenset[str]:
    """The names of events that are outcomes and so no exposures: those of the metrics, and of what these count.

    What a ratio divides by may well be the exposure. What is measured post hoc changes nothing: who was exposed by
    such an event is so still, and those who come are exposed as those before them were.
    """
    registered = [definition for definition in definitions_of(experiment) if not definition.is_post_hoc]
    return frozenset(definition.key for definition in registered).union(
        definition.quantity.event for definition in registered
    )


def current_definitions(names: list[str]) -> list[Definition]:
    """What these names mean now. One query, or none where there are no names."""
    metrics = {metric.key: metric for metric in Metric.objects.filter(key__in=names)} if names else {}
    return [definition_of(metrics[name]) if name in metrics else undefined(name) for name in names]
