"""The first page of the admin: what is on, what is being tried and what was changed, in the current environment."""

from __future__ import annotations

from typing import Any

from django.db.models import Count, Q
from django.http import HttpRequest
from django.utils import timezone

from config.admin.current_environment import current_environment
from config.admin.settings_pages import readable_in_lists
from config.change_log.descriptions import told_in_brief
from config.models import Change, Environment
from experiments.admin.results.panel import panel_of
from experiments.models import Experiment, Status
from experiments.results.computing import analyse_experiment
from flags.models import Flag

_SHOWN_EXPERIMENTS = 3
_SHOWN_CHANGES = 8


def add_overview(request: HttpRequest, context: dict[str, Any]) -> dict[str, Any]:
    """Add to the page what this person may see."""
    environment = current_environment(request)
    if request.user.has_perm("flags.view_flag"):
        context["flags"] = _flags(environment)
    if request.user.has_perm("experiments.view_experiment"):
        context["experiments"] = _experiments(environment)
    if request.user.has_perm("config.view_change"):
        here = Change.objects.filter(environment__in=("", environment.key))
        context["latest"] = [told_in_brief(change) for change in readable_in_lists(here)[:_SHOWN_CHANGES]]
    return {**context, "title": "Overview"}


def _flags(environment: Environment) -> dict[str, int]:
    flags = Flag.objects.current().in_environment(environment)
    return flags.aggregate(total=Count("pk"), on=Count("pk", filter=Q(enabled=True)))


def _experiments(environment: Environment) -> dict[str, Any]:
    here = Experiment.objects.in_environment(environment).select_related("environment")
    counted = here.order_by().values_list("status").annotate(Count("pk"))
    at = timezone.now()
    running = here.filter(status=Status.RUNNING)[:_SHOWN_EXPERIMENTS]
    return {
        **dict.fromkeys(Status.values, 0),
        **dict(counted),
        "panels": [panel_of(analyse_experiment(each, at)) for each in running],
    }
