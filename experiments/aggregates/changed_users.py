"""Finding the users whose totals may have changed: those with new events or exposures since a mark."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from django.db import connection
from django.db.models import BooleanField, Q, QuerySet
from django.db.models.expressions import RawSQL

from config.database.commit_order import arrived_in_doubt, arrived_since
from config.database.engines import is_distributed
from config.database.insertion import adapt_row
from events.models import Event
from experiments.aggregates.dialects import dialect
from experiments.aggregates.metric_columns import names_computed_again
from experiments.metrics.documents import definitions_of
from experiments.models import Experiment, Exposure, UserTotal


def has_changes(experiment: Experiment, mark: str, until: datetime | None = None) -> bool:
    """Return whether an event or exposure that matters was committed after the mark was taken.

    With `until`, only those that happened by then matter.
    """
    exposures, (condition, parameters) = _new_exposures(experiment, mark), arrived_since(mark, "arrival")
    if until is not None:
        exposures = exposures.filter(exposed_at__lte=until)
        condition, parameters = f"{condition} AND timestamp <= %s", [*parameters, until]
    names = _names(experiment)
    return exposures.exists() or bool(_exposed_users_of(experiment, condition, parameters, names, "LIMIT 1"))


def find_changed_users(experiment: Experiment, mark: str) -> set[str]:
    """Return the users with an event or exposure that matters and was committed after the mark was taken."""
    exposed = _users_of_new_exposures(experiment, mark)
    return exposed.union(_users_of_new_events(experiment, mark, _names(experiment)))


def find_users_with_another_past(experiment: Experiment, mark: str, moment: datetime) -> set[str]:
    """Return the users whose figures before a moment may have changed since the mark was taken.

    They have a new exposure, or a new event, that counts from a time before the moment on. Totals must be as of the
    mark, because an exposure may have been before the moment until now.
    """
    condition, parameters = arrived_since(mark, "arrival")
    past, both = f"{condition} AND (timestamp < %s OR received_at < %s)", [moment, moment]
    users = _exposed_users_of(experiment, past, [*parameters, *both], _names(experiment))
    condition, parameters = arrived_since(mark, "exposed.arrival")
    statement = f"""
        SELECT exposed.user_id FROM {Exposure._meta.db_table} AS exposed LEFT JOIN {UserTotal._meta.db_table} AS total
            ON total.experiment_id = exposed.experiment_id AND total.user_id = exposed.user_id
        WHERE exposed.experiment_id = %s AND {condition} AND (exposed.exposed_at < %s OR total.exposed_at < %s)
    """  # noqa: S608 (no data)
    return {*users, *_fetch_texts(statement, [experiment.pk, *parameters, *both])}


def find_users_to_compute_again(experiment: Experiment, since: str, until: str) -> set[str]:
    """Return the users whose totals do not follow from their old ones and their events between two marks.

    They have a new exposure, a new event of a metric that does not add up, or an event that is in doubt.
    """
    users = _users_of_new_exposures(experiment, since)
    if names := names_computed_again(definitions_of(experiment)):
        users.update(_users_of_new_events(experiment, since, names))
    if doubt := arrived_in_doubt(since, until, "arrival"):
        users.update(_exposed_users_of(experiment, *doubt, _names(experiment)))
    return users


def find_beyond(experiment: Experiment, stop: datetime) -> set[str]:
    """Return the users who were exposed, saw another variant or have events after the stop.

    All of these counted until the stop was known.
    """
    exposed = _exposures(experiment).filter(Q(exposed_at__gt=stop) | Q(in_several_since__gt=stop))
    later = "environment_id = %s AND timestamp > %s AND received_at > %s"
    late = _exposed_users_of(experiment, later, [experiment.environment_id, stop, stop], _names(experiment))
    return set(exposed.values_list("user_id", flat=True)).union(late)


def _names(experiment: Experiment) -> set[str]:
    return {name for definition in definitions_of(experiment) for name in definition.events}


def _exposures(experiment: Experiment) -> QuerySet[Exposure]:
    return Exposure.objects.filter(experiment=experiment)


def _new_exposures(experiment: Experiment, mark: str) -> QuerySet[Exposure]:
    condition, parameters = arrived_since(mark, "arrival")
    has_arrived = RawSQL(condition, parameters, output_field=BooleanField())  # noqa: S611 (no data)
    return _exposures(experiment).filter(has_arrived)


def _users_of_new_exposures(experiment: Experiment, mark: str) -> set[str]:
    return set(_new_exposures(experiment, mark).values_list("user_id", flat=True))


def _users_of_new_events(experiment: Experiment, mark: str, names: Collection[str]) -> list[str]:
    # Only the index on `arrival` finds these quickly.
    return _exposed_users_of(experiment, *arrived_since(mark, "arrival"), names)


def _exposed_users_of(
    experiment: Experiment, condition: str, parameters: Sequence[Any], names: Collection[str], then: str = ""
) -> list[str]:
    """Return the exposed users of the events of some names that matter and meet a condition.

    Each user is looked up in the index of exposures. Without the fence, or LATERAL, PostgreSQL expects one user in an
    experiment of which it has no statistics, and scans all exposures for each user.
    """
    chosen, own = sorted(names) or [""], ["", *experiment.references()]  # every event has a name
    every = "" if then else "DISTINCT"
    if is_distributed():
        statement = f"""
            SELECT {every} matching.user_id FROM (
                SELECT name, user_id, environment_id, experiment{dialect().fence_column}
                FROM {Event._meta.db_table} WHERE {condition}
            ) AS matching JOIN LATERAL (
                SELECT exposed.user_id{dialect().fence_column} FROM {Exposure._meta.db_table} AS exposed
                WHERE exposed.experiment_id = %s AND exposed.user_id = matching.user_id
            ) AS exposed ON exposed.user_id = matching.user_id
            WHERE environment_id = %s AND name IN ({_marks(chosen)}) AND experiment IN ({_marks(own)})
            {then}
        """  # noqa: S608 (no data)
        values = [*parameters, experiment.pk, experiment.environment_id, *chosen, *own]
        return _fetch_texts(statement, values)
    statement = f"""
        SELECT user_id FROM (
            SELECT {every} user_id FROM (
                SELECT name, user_id, environment_id, experiment FROM {Event._meta.db_table}
                WHERE {condition} {dialect().fence}
            ) AS matching
            WHERE environment_id = %s AND name IN ({_marks(chosen)}) AND experiment IN ({_marks(own)})
        ) AS users
        WHERE EXISTS (
            SELECT 1 FROM {Exposure._meta.db_table} AS exposed
            WHERE exposed.experiment_id = %s AND exposed.user_id = users.user_id {dialect().fence}
        )
        {then}
    """  # noqa: S608 (no data)
    return _fetch_texts(statement, [*parameters, experiment.environment_id, *chosen, *own, experiment.pk])


def _marks(values: Sequence[str]) -> str:
    return ", ".join(["%s"] * len(values))


def _fetch_texts(statement: str, parameters: Sequence[Any]) -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters if connection.vendor == "postgresql" else adapt_row(parameters))
        return [text for (text,) in cursor.fetchall()]
