"""The events that have arrived since an earlier read, in the order of commits, for readers who follow them live.

Reading writes nothing, and needs no index of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from config.database.commit_order import arrived_since_position, newest_position
from config.models import Environment
from events.models import EXPERIMENT_LENGTH, VARIANT_LENGTH, Event
from events.queries.experiment_names import all_names

MOST_SHOWN = 100
"""The most events of one answer, the newest."""
MOST_SEARCHED = 5_000
"""How many of the newest arrivals of all environments one read searches for those that it wants."""

_TABLE = Event._meta.db_table
# The limit within bounds the work, and keeps SQLite from preferring an index that has no order of arrival.
_ARRIVED = f"""
    SELECT arrived.* FROM (SELECT * FROM {_TABLE} WHERE {{arrived}} ORDER BY {{order}} DESC LIMIT %s) AS arrived
    WHERE {{wanted}} LIMIT %s
"""  # noqa: S608 (no data)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a reader follows: all events of the environment, or those that have all of these values."""

    event: str = ""
    user_id: str = ""
    experiment: str = ""
    variant: str = ""


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Events with the newest first, and the position from which to ask next.

    `has_more` says that others arrived in the same time, which are not among these.
    """

    events: Sequence[Event]
    position: str
    has_more: bool


def read_arrivals(environment: Environment, wanted: Wanted, since: str | None) -> Arrivals:
    """Return the events that arrived since a position, or only the current position, with at most two queries."""
    position = newest_position(_TABLE)
    if since is None:
        return Arrivals([], position, False)
    arrived, order, parameters = arrived_since_position(since)
    conditions, values = _conditions(environment, wanted)
    statement = _ARRIVED.format(arrived=arrived, order=order, wanted=" AND ".join(conditions))
    events = list(Event.objects.raw(statement, [*parameters, MOST_SEARCHED, *values, MOST_SHOWN + 1]))
    shown = sorted(events[:MOST_SHOWN], key=lambda event: (event.received_at, event.timestamp), reverse=True)
    return Arrivals(shown, position, len(events) > MOST_SHOWN)


def _conditions(environment: Environment, wanted: Wanted) -> tuple[list[str], list[Any]]:
    conditions, values = ["environment_id = %s"], list[Any]([environment.pk])
    columns = {"name": wanted.event, "user_id": wanted.user_id, "variant": wanted.variant[:VARIANT_LENGTH]}
    for column, value in columns.items():
        if value:
            conditions.append(f"{column} = %s")
            values.append(value)
    if wanted.experiment:
        names = [name[:EXPERIMENT_LENGTH] for name in all_names(environment, wanted.experiment)]
        conditions.append(f"experiment IN ({', '.join(['%s'] * len(names))})")
        values += names
    return conditions, values
