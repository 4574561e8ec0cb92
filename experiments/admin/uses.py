"""The experiments that use a flag, and the metrics and experiments that read an event, for the pages of these."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.http import HttpRequest
from django.urls import reverse

from config.admin.current_environment import current_environment
from config.admin.navigation import may_view
from events.admin.name_page import EventUse
from events.admin.name_page import asking_for_uses as asking_for_uses_of_event
from experiments.admin.results.history import describe_briefly
from experiments.admin.words import describe_definition
from experiments.metrics.changes import uses_of
from experiments.metrics.definition import definition_of
from experiments.models import Experiment, Metric
from experiments.results.outcomes import stored_outcomes
from flags.admin.usage import FlagUse
from flags.admin.usage import asking_for_uses as asking_for_uses_of_flag

_MAX_USES = 21
"""The page shows 20, and says if there are more."""


def uses_of_flag(sender: Any, request: HttpRequest, key: str, **_: Any) -> list[FlagUse]:
    """Return the newest experiments of the current environment that use this flag, with at most two queries."""
    if not may_view(request, "experiments.experiment"):
        return []
    experiments = list(
        Experiment.objects.in_environment(current_environment(request)).filter(flag__key=key)[:_MAX_USES]
    )
    outcomes = stored_outcomes(experiments)
    return [
        FlagUse(
            experiment.key,
            reverse("admin:experiments_experiment_change", args=[experiment.pk]),
            describe_briefly(experiment, outcomes.get(experiment.pk)) or experiment.status,
        )
        for experiment in experiments
    ]


asking_for_uses_of_flag.connect(uses_of_flag, dispatch_uid="experiments.flag_uses")


def uses_of_event(sender: Any, request: HttpRequest, name: str, **_: Any) -> list[EventUse]:
    """Return what reads this event, as far as the user may view it, with at most two queries."""
    metrics = list(Metric.objects.order_by("key")) if may_view(request, "experiments.metric") else []
    uses = [*_metrics(metrics, name)]
    # A name without a definition is a metric by itself: the share of users with such an event.
    if may_view(request, "experiments.experiment") and all(metric.key != name for metric in metrics):
        uses += _experiments(request, name)
    return uses


def _metrics(metrics: list[Metric], name: str) -> Iterator[EventUse]:
    for metric in metrics:
        definition = definition_of(metric)
        if name in definition.events:
            address = reverse("admin:experiments_metric_change", args=[metric.pk])
            yield EventUse(metric.key, address, describe_definition(definition))


def _experiments(request: HttpRequest, name: str) -> Iterator[EventUse]:
    for use in uses_of(name, current_environment(request)):
        address = reverse("admin:experiments_experiment_change", args=[use.experiment.pk])
        if not use.version:
            words = f"{use.experiment.status} experiment, which measures the share of users with this event"
            yield EventUse(use.experiment.key, address, words)


asking_for_uses_of_event.connect(uses_of_event, dispatch_uid="experiments.event_uses")
