"""The first page of the admin: flags, running experiments and recent changes."""

from __future__ import annotations

from typing import Any

from django.db.models import Count, Q
from django.http import HttpRequest
from django.utils import timezone

from config.admin.current_environment import current_environment
from config.admin.settings_pages import readable_in_lists
from config.change_log.descriptions import describe_change_briefly
from config.models import Change, Environment
from experiments.admin.results.panel import build_panel
from experiments.models import Experiment, Status
from experiments.results.computing import analyse_experiment
from flags.models import Flag

_MOST_EXPERIMENTS = 3
_MOST_CHANGES = 8


def add_overview(request: HttpRequest, context: dict[str, Any]) -> dict[str, Any]:
    """Add the parts of the page that the user may view."""
    environment = current_environment(request)
    if request.user.has_perm("flags.view_flag"):
        context["flags"] = _flags(environment)
    if request.user.has_perm("experiments.view_experiment"):
        context["experiments"] = _experiments(environment)
    if request.user.has_perm("config.view_change"):
        changes = readable_in_lists(Change.objects.filter(environment__in=("", environment.key)))
        context["latest"] = [describe_change_briefly(change) for change in changes[:_MOST_CHANGES]]
    return {**context, "title": "Overview"}


def _flags(environment: Environment) -> dict[str, int]:
    flags = Flag.objects.current().in_environment(environment)
    return flags.aggregate(total=Count("pk"), on=Count("pk", filter=Q(enabled=True)))


def _experiments(environment: Environment) -> dict[str, Any]:
    experiments = Experiment.objects.in_environment(environment).select_related("environment")
    counts = experiments.current().order_by().values_list("status").annotate(Count("pk"))
    at = timezone.now()
    running = experiments.filter(status=Status.RUNNING)[:_MOST_EXPERIMENTS]
    return {
        **dict.fromkeys(Status.values, 0),
        **dict(counts),
        "panels": [build_panel(analyse_experiment(experiment, at)) for experiment in running],
    }
