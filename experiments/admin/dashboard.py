"""The first page of the admin: what runs, what changed today, what will change, and what needs somebody."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, time, timedelta
from typing import Any
from urllib.parse import urlencode

from django.core.paginator import Paginator
from django.db import DatabaseError
from django.db.models import Count
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone

from config.admin.current_environment import current_environment
from config.admin.settings_pages import Scheduled, expiring_keys, readable_in_lists
from config.admin.webhook_pages import describe_failing
from config.change_log.descriptions import DescribedChange, describe_change_briefly
from config.database.engines import is_distributed
from config.database.outages import is_outage
from config.models import Change, Environment
from config.timestamps import format_timestamp
from events.admin.descriptions import describe_stopped
from experiments.admin.results.history import describe_briefly
from experiments.admin.results.panel import build_panel, days_left
from experiments.metrics.definition import definition_of, stopped
from experiments.models import Experiment, Metric, Status
from experiments.models.plan import remaining_run
from experiments.results.analyse import analyse_experiment
from experiments.results.outcomes import outcomes_of
from flags.admin.overview import Sparkline, count_flags, scheduled_changes, sparklines, stale_flags
from flags.changes import flag_changes

_EXPERIMENTS_A_PAGE = 5
_MAX_CHANGES = 10
_MAX_SCHEDULED = 12
_MAX_METRICS = 500
_MAX_FINISHED = 5
_MAX_COMPUTED = 2
"""A page computes at most this many outcomes that are not stored yet. The periodic task computes all."""
_LATELY = timedelta(days=30)
AHEAD = timedelta(days=14)


def add_overview(request: HttpRequest, context: dict[str, Any]) -> dict[str, Any]:
    """Add the parts of the page that the user may view."""
    environment, now = current_environment(request), timezone.now()
    changes = _latest_changes(environment) if request.user.has_perm("config.view_change") else []
    if request.user.has_perm("experiments.view_experiment"):
        with _unless_away(context):
            context["experiments"] = _experiments(environment, now, request.GET.get("p"))
            context["finished"] = _finished(environment, now)
    if request.user.has_perm("experiments.view_metric"):
        with _unless_away(context):
            context["stopped"] = list(_stopped_metrics(environment, now))
    if request.user.has_perm("config.view_webhook"):
        context["webhooks"] = list(describe_failing(now))
    scheduled = sorted(_scheduled(request, environment, now))
    context["scheduled"], context["more_scheduled"] = scheduled[:_MAX_SCHEDULED], scheduled[_MAX_SCHEDULED:]
    lines: Mapping[str, Sparkline] = {}
    if request.user.has_perm("flags.view_flag"):
        context["flags"] = count_flags(environment)
        stale = stale_flags(environment, now)
        keys = {flag.key for flag, _ in stale.first} | {entry.change.key for entry in changes if _is_of_flag(entry)}
        lines = sparklines(environment, keys, now)
        context["stale"], context["more_stale"] = [(*pair, lines.get(pair[0].key)) for pair in stale.first], stale.more
    if changes:
        start = _start_of_today(now)
        today = [entry for entry in changes if entry.change.at >= start]
        context["latest"] = changes[0]
        if len(today) == _MAX_CHANGES:  # there may be more
            context["all_of_today"] = (
                f"{reverse('admin:config_change_changelist')}?{urlencode({'from': _moment(start)})}"
            )
        context["today"] = [(entry, lines.get(entry.change.key) if _is_of_flag(entry) else None) for entry in today]
    return {**context, "title": "Overview"}


@contextmanager
def _unless_away(context: dict[str, Any]) -> Iterator[None]:
    """Leave out what needs a server of Citus that is away. The page still leads to the flags, which need none."""
    try:
        yield
    except DatabaseError as error:
        if not (is_distributed() and is_outage(error)):
            raise
        context["is_away"] = True


def _is_of_flag(entry: DescribedChange) -> bool:
    return entry.change.object_kind == flag_changes.KIND


def _start_of_today(now: datetime) -> datetime:
    return timezone.localtime(now).replace(hour=0, minute=0, second=0, microsecond=0)


def _moment(start: datetime) -> str:
    """Return the start of a day for the filter of the change log: without a time if it is a day in UTC."""
    utc = start.astimezone(UTC)
    return utc.date().isoformat() if utc.time() == time() else format_timestamp(start)


def _latest_changes(environment: Environment) -> Sequence[DescribedChange]:
    changes = readable_in_lists(Change.objects.filter(environment__in=("", environment.key)))
    return [describe_change_briefly(change) for change in changes[:_MAX_CHANGES]]


def _experiments(environment: Environment, now: datetime, page: str | None) -> dict[str, Any]:
    experiments = Experiment.objects.in_environment(environment).select_related("environment")
    counts = dict(experiments.current().order_by().values_list("status").annotate(Count("pk")))
    running = Paginator(experiments.filter(status=Status.RUNNING), _EXPERIMENTS_A_PAGE)
    running.count = counts.get(Status.RUNNING, 0)  # known already
    shown = running.get_page(page)
    panels = [build_panel(analyse_experiment(experiment, now)) for experiment in shown]
    return {
        **dict.fromkeys(Status.values, 0),
        **counts,
        "page": shown,
        "panels": [(panel, days_left(panel.results)) for panel in panels],
    }


def _finished(environment: Environment, now: datetime) -> list[tuple[Experiment, str]]:
    """Return the experiments that were stopped lately, the newest first, with what came of each."""
    stopped = Experiment.objects.in_environment(environment).current().select_related("environment")
    lately = list(stopped.filter(stopped_at__gte=now - _LATELY).order_by("-stopped_at", "-id")[:_MAX_FINISHED])
    outcomes = outcomes_of(lately, now, most=_MAX_COMPUTED)
    return [(experiment, describe_briefly(experiment, outcomes.get(experiment.pk))) for experiment in lately]


def _scheduled(request: HttpRequest, environment: Environment, now: datetime) -> Iterator[Scheduled]:
    until = now + AHEAD
    if request.user.has_perm("flags.view_flag"):
        yield from scheduled_changes(environment, now, until)
    if request.user.has_perm("config.view_apikey"):
        yield from expiring_keys(environment, now, until)
    if request.user.has_perm("experiments.view_experiment"):
        for experiment in Experiment.objects.in_environment(environment).filter(status=Status.RUNNING):
            ends_at = now + remaining_run(experiment, now)
            if now < ends_at <= until:
                address = reverse("admin:experiments_experiment_change", args=[experiment.pk])
                yield Scheduled(ends_at, experiment.key, address, "will have run for as long as planned")


def _stopped_metrics(environment: Environment, now: datetime) -> Iterator[tuple[Metric, str]]:
    """Yield the metrics whose events have stopped, with words about these events."""
    metrics = [(metric, definition_of(metric)) for metric in Metric.objects.order_by("key")[:_MAX_METRICS]]
    silent = stopped([definition for _, definition in metrics], environment, now)
    for metric, definition in metrics:
        own = {name: silent[name] for name in definition.events if name in silent}
        if own:
            yield metric, describe_stopped(own, environment.name)
