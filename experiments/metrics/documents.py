"""Metrics as JSON documents, and the definitions that an experiment uses.

A started experiment uses the definitions of its start, a draft the current ones.
"""

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
    "where": "where",
    "steps": "steps",
    "quantile": "quantile",
    "windowHours": "window_hours",
    "delayHours": "delay_hours",
    "fromDay": "from_day",
    "toDay": "to_day",
    "capValue": "cap_value",
    "capPercentile": "cap_percentile",
    "direction": "direction",
    "role": "role",
    "margin": "margin",
    "marginAbsolute": "margin_absolute",
}
"""The column of each JSON property that says what a metric computes."""
LEFT_OUT_WHILE_EMPTY = ("where", "steps", "quantile", "margin", "marginAbsolute")
"""Properties that no document has without a value, so that older documents compare as equal."""


def meaning(metric: Metric) -> Document:
    """Return what a metric computes: everything except its key, its description and its version."""
    return without_empty({name: getattr(metric, column) for name, column in COLUMNS.items()})


def without_empty(document: Document) -> Document:
    """Return the document without the properties that are left out while they are empty."""
    return {
        name: value for name, value in document.items() if name not in LEFT_OUT_WHILE_EMPTY or value not in (None, [])
    }


def definition_of(metric: Metric) -> Definition:
    """Return the current definition of a metric."""
    return Definition.parse({"key": metric.key, "version": metric.version, **meaning(metric)})


def definitions_of(experiment: Experiment) -> list[Definition]:
    """Return the definitions of the experiment's metrics, in their order.

    For a started experiment this needs no query.
    """
    if experiment.status == Status.DRAFT:
        return current_definitions(experiment.metrics)
    if not experiment.definitions:  # started before metrics could be defined
        return [undefined(name) for name in experiment.metrics]
    return [Definition.parse(document) for document in experiment.definitions]


def outcome_names(experiment: Experiment) -> frozenset[str]:
    """Return the names of events that are outcomes, which never create exposures.

    These are the keys of the metrics and the names of the events that they count, with all steps of
    funnels. The denominator of a ratio is not among them, because it may be the exposure itself.
    Post-hoc metrics change nothing: users who were exposed by such an event stay exposed, and new
    users are exposed in the same way.
    """
    registered = [definition for definition in definitions_of(experiment) if not definition.is_post_hoc]
    return frozenset(definition.key for definition in registered).union(
        *(definition.outcomes for definition in registered)
    )


def current_definitions(names: list[str]) -> list[Definition]:
    """Return the current definitions of these names, with one query, or none if there are no names."""
    metrics = {metric.key: metric for metric in Metric.objects.filter(key__in=names)} if names else {}
    return [definition_of(metrics[name]) if name in metrics else undefined(name) for name in names]
