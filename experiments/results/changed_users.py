"""Finding the users whose values may have changed: those with new events or exposures since a watermark."""

from __future__ import annotations

from datetime import datetime

from django.db.models import OuterRef, Q, QuerySet, Subquery
from django.db.models.lookups import IsNull

from config.database.commit_order import Arrived, is_watermark_of_this_database
from events.models import Event
from experiments.metrics.definition import definitions_of
from experiments.models import Experiment, Exposure
from experiments.results.expressions import IsTrue

VERSION = "2/"
"""Begins the watermark of values that this version computed. Change it with the columns of values or sums.

To the version before, such a watermark is one of another database. So each of two versions that run side by side
computes again what the other one has computed.
"""


def usable_watermark(watermark: str) -> str | None:
    """Return a watermark in the commit order of this database, or None if everything must be computed again.

    That is so the first time, after a restore from elsewhere, and where another version of this service was the last to
    compute the values, because it knows other columns of them.
    """
    if not watermark.startswith(VERSION):
        return None
    taken = watermark.removeprefix(VERSION)
    return taken if is_watermark_of_this_database(taken) else None


def has_changes(experiment: Experiment, watermark: str, until: datetime | None = None) -> bool:
    """Return whether an event or exposure that matters was committed since the watermark.

    With `until`, only those that happened by then matter.
    """
    exposures, events = new_exposures(experiment, watermark), new_events(experiment, watermark)
    if until is not None:
        exposures, events = exposures.filter(exposed_at__lte=until), events.filter(IsTrue(Q(timestamp__lte=until)))
    return exposures.exists() or events.exists()


def find_changed_users(experiment: Experiment, watermark: str) -> set[str]:
    """Return the users with an event or exposure that matters and was committed since the watermark."""
    events, exposures = new_events(experiment, watermark), new_exposures(experiment, watermark)
    changed = set(events.values_list("user_id", flat=True).distinct())
    return changed.union(exposures.values_list("user_id", flat=True))


def find_beyond(experiment: Experiment, stop: datetime) -> set[str]:
    """Return the users who were exposed, saw another variant or have events after the stop.

    All of these counted until the stop was known.
    """
    exposed = Exposure.objects.filter(Q(exposed_at__gt=stop) | Q(in_several_since__gt=stop), experiment=experiment)
    later = Event.objects.filter(timestamp__gt=stop, received_at__gt=stop, environment=experiment.environment_id)
    late = _by_exposed_users(later, experiment).order_by().values_list("user_id", flat=True).distinct()
    return {*exposed.values_list("user_id", flat=True), *late}


def new_exposures(experiment: Experiment, watermark: str) -> QuerySet[Exposure]:
    return Exposure.objects.filter(Arrived("arrival", watermark), experiment=experiment).order_by()


def new_events(experiment: Experiment, watermark: str) -> QuerySet[Event]:
    """Return the new events of the metrics by exposed users."""
    # Only the index on arrivals finds these quickly.
    return _by_exposed_users(Event.objects.filter(Arrived("arrival", watermark)).order_by(), experiment)


def _by_exposed_users(events: QuerySet[Event], experiment: Experiment) -> QuerySet[Event]:
    """Filter the events that the metrics count, of users who are exposed.

    Without statistics of an experiment, PostgreSQL expects one user, and would join all exposures to each event, or
    hash all of them for EXISTS. A subquery for a value looks up the exposure of each event, and there is one at most.
    """
    names = sorted({name for definition in definitions_of(experiment) for name in definition.events})
    own = ["", *experiment.references()]
    matters = Q(environment=experiment.environment_id, name__in=names or [""], experiment__in=own)
    exposures = Exposure.objects.filter(experiment=experiment, user_id=OuterRef("user_id")).order_by()
    return events.filter(IsTrue(matters), IsTrue(Q(IsNull(Subquery(exposures.values("phase")), False))))
