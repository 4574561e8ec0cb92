"""Finding the users whose totals may have changed: theirs are the events and exposures that are new since a mark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db import connection
from django.db.models import BooleanField, Exists, OuterRef, QuerySet, Sum
from django.db.models.expressions import RawSQL

from config.arrivals import arrived_since
from events.counts import quarter_of
from events.models import Event, EventCount, EventQuerySet
from experiments.metrics.definition import Definition
from experiments.models import Experiment, Exposure
from experiments.totals.dialects import as_stored, dialect
from experiments.totals.queries import earliest_event


@dataclass(slots=True)
class News:
    """Users of whom something is new: of their exposures, and by name of their events."""

    exposed: set[str] = field(default_factory=set)
    by_event: dict[str, set[str]] = field(default_factory=dict)

    def touched(self, definition: Definition) -> set[str]:
        """Those whose totals by this metric may have changed."""
        return self.exposed.union(*(self.by_event.get(name, ()) for name in definition.events))


def has_news(experiment: Experiment, definitions: Sequence[Definition], own: Sequence[str], mark: str) -> bool:
    """Whether anything that matters has arrived since the mark was taken.

    `own` is what events may call the experiment, here and below.
    """
    if _new_exposures(experiment, mark).exists():
        return True
    new, parameters = _new_events(experiment, definitions, own, mark)
    return bool(_fetch(f"SELECT 1 {new} LIMIT 1", parameters))


def find_news(experiment: Experiment, definitions: Sequence[Definition], own: Sequence[str], mark: str) -> News:
    """What has arrived since the mark was taken."""
    news = News(set(_new_exposures(experiment, mark).values_list("user_id", flat=True)))
    new, parameters = _new_events(experiment, definitions, own, mark)
    for name, user_id in _fetch(f"SELECT DISTINCT name, user_id {new}", parameters):
        news.by_event.setdefault(name, set()).add(user_id)
    return news


def find_beyond(
    experiment: Experiment, definitions: Sequence[Definition], own: Sequence[str], stop: datetime
) -> set[str]:
    """The users who were exposed after the stop, or have events after it: both counted until it was known."""
    late = _events(experiment, definitions, own).filter(timestamp__gt=stop, received_at__gt=stop)
    exposed = _exposures(experiment).filter(exposed_at__gt=stop)
    return set(late.values_list("user_id", flat=True).distinct()).union(exposed.values_list("user_id", flat=True))


def count_events(experiment: Experiment, definition: Definition) -> int:
    """How many events one pass over all that may matter to a metric goes through, whoever's they are."""
    since = quarter_of(earliest_event(experiment))
    counted = EventCount.objects.filter(environment=experiment.environment_id, name__in=definition.events)
    return counted.filter(quarter__gte=since).aggregate(events=Sum("count"))["events"] or 0


def _exposures(experiment: Experiment) -> QuerySet[Exposure]:
    return Exposure.objects.filter(experiment=experiment)


def _events(experiment: Experiment, definitions: Sequence[Definition], own: Sequence[str]) -> EventQuerySet:
    """The events of exposed users that some metric looks at."""
    named = Event.objects.filter(environment=experiment.environment_id, name__in=_names(definitions)).naming("", *own)
    return named.filter(Exists(_exposures(experiment).filter(user_id=OuterRef("user_id")))).order_by()


def _new_exposures(experiment: Experiment, mark: str) -> QuerySet[Exposure]:
    condition, parameters = arrived_since(mark, "arrival")
    has_arrived = RawSQL(condition, parameters, output_field=BooleanField())  # noqa: S611 (no data)
    return _exposures(experiment).filter(has_arrived)


def _new_events(
    experiment: Experiment, definitions: Sequence[Definition], own: Sequence[str], mark: str
) -> tuple[str, list[Any]]:
    """The end of a query, which has a name and a user. By no other index than that of arrivals is it quick."""
    arrived, parameters = arrived_since(mark, "arrival")
    names, references = _names(definitions) or [""], ["", *own]  # no event has no name
    statement = f"""
        FROM (
            SELECT name, user_id, environment_id, experiment FROM {Event._meta.db_table}
            WHERE {arrived} {dialect().fence}
        ) AS arrived
        WHERE environment_id = %s AND name IN ({_marks(names)}) AND experiment IN ({_marks(references)})
            AND EXISTS (
                SELECT 1 FROM {Exposure._meta.db_table} AS exposed
                WHERE exposed.experiment_id = %s AND exposed.user_id = arrived.user_id
            )
    """  # noqa: S608 (no data)
    return statement, [*parameters, experiment.environment_id, *names, *references, experiment.pk]


def _names(definitions: Sequence[Definition]) -> list[str]:
    return sorted({name for definition in definitions for name in definition.events})


def _marks(values: Sequence[str]) -> str:
    return ", ".join(["%s"] * len(values))


def _fetch(statement: str, parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, as_stored(parameters))
        rows: list[tuple[Any, ...]] = cursor.fetchall()
    return rows
