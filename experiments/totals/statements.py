"""The statements that write totals, on either database."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

from django.db import connection

from experiments.metrics.definition import Definition
from experiments.models import Experiment, UserTotal
from experiments.totals.dialects import planned_without
from experiments.totals.queries import Query

_TABLE = UserTotal._meta.db_table
_FIGURES = ("variant", "day", "y", "d", "x", "events", '"foreign"')
_COLUMNS = ("experiment_id", "metric", "user_id", *_FIGURES)


def rewrite_totals(experiment: Experiment, place: int, definition: Definition, own: Sequence[str]) -> None:
    """Make the totals by the metric at this place of all users, in place of those that there are.

    `own` is what events may call the experiment, here and below. Exposures and events are sorted and gone through once,
    for an index probe for each user takes three times as long; and in this order, rows are written quickest.
    """
    UserTotal.objects.filter(experiment=experiment, metric=place).delete()
    query = Query(experiment, place, definition, own)
    statement = f"INSERT INTO {_TABLE} ({', '.join(_COLUMNS)}) {query.of_all()}"
    with connection.cursor() as cursor, planned_without("nestloop", "hashjoin"):
        cursor.execute(statement, query.stored_parameters)


def update_totals(
    experiment: Experiment, place: int, definition: Definition, own: Sequence[str], users: Sequence[str]
) -> set[date]:
    """Bring the totals of these users in line with the events, and return the days of exposure of those that changed.

    Who has no event that matters keeps what there was: only a stop or an erasure takes events away, and whoever sees
    to these deletes totals first.
    """
    query = Query(experiment, place, definition, own)
    stored, excluded = (", ".join(f"{table}.{name}" for name in _FIGURES) for table in (_TABLE, "excluded"))
    statement = f"""
        INSERT INTO {_TABLE} ({", ".join(_COLUMNS)}) {query.of(users)}
        ON CONFLICT (experiment_id, metric, user_id) DO UPDATE SET ({", ".join(_FIGURES)}) = ({excluded})
        WHERE ({stored}) <> ({excluded}) RETURNING day
    """
    with connection.cursor() as cursor:
        cursor.execute(statement, query.stored_parameters)
        return {day for (day,) in cursor.fetchall()}
