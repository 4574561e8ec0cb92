"""The pages that belong to an experiment: its flag and its metrics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from django.http import HttpRequest
from django.urls import reverse

from config.admin.navigation import may_view
from events.admin.name_page import address_of_event
from experiments.models import Experiment, Metric
from flags.models import Flag


@dataclass(frozen=True, slots=True)
class Links:
    """The addresses of the pages. An address is empty if the user may not view the page, or if it does not exist.

    `metrics` has an address for each key. A metric without a definition leads to the page of the event.
    """

    flag: str
    metrics: Mapping[str, str]

    @property
    def by_metric(self) -> list[tuple[str, str]]:
        """Return the metrics as pairs: a template would take a metric named `items` for the method."""
        return list(self.metrics.items())


def links_of(request: HttpRequest, experiment: Experiment) -> Links:
    """Return the links that the user may follow, with at most two queries."""
    return Links(_flag(request, experiment), _metrics(request, experiment))


def _flag(request: HttpRequest, experiment: Experiment) -> str:
    if not experiment.flag or not may_view(request, "flags.flag"):
        return ""
    pk = Flag.objects.filter(key=experiment.flag["key"]).values_list("pk", flat=True).first()
    return reverse("admin:flags_flag_change", args=[pk]) if pk else ""


def _metrics(request: HttpRequest, experiment: Experiment) -> dict[str, str]:
    known: dict[str, str] = {}
    if experiment.metrics and may_view(request, "experiments.metric"):
        rows = Metric.objects.filter(key__in=experiment.metrics).values_list("key", "pk")
        known = {key: reverse("admin:experiments_metric_change", args=[pk]) for key, pk in rows}
    sees_events = may_view(request, "events.event")
    # Without a definition, a metric is the share of users with an event of this name.
    return {key: known.get(key) or (address_of_event(key) if sees_events else "") for key in experiment.metrics}
