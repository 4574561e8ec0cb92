"""Whether anything has arrived that results may count, without reading results."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from django.db import connection

from config.database.commit_order import arrived_since_position, is_position, newest_position
from events.models import Event
from experiments.models import Experiment, Exposure

_MOST_SEARCHED = 5_000
"""How many of the newest arrivals are searched. Where there are more, something is taken to have changed."""
_SEPARATOR = "|"
_EVENTS, _EXPOSURES = Event._meta.db_table, Exposure._meta.db_table
_ARRIVED = "SELECT {columns} FROM {table} WHERE {arrived} ORDER BY {order} DESC LIMIT %s"
_COUNTED = f"""
    SELECT COUNT(*), COUNT(CASE WHEN {{counts}} THEN 1 END) FROM ({_ARRIVED}) AS arrived
"""  # noqa: S608 (no data)


def current_arrivals() -> str:
    """Return the position of events and exposures, for `has_arrivals`."""
    return _SEPARATOR.join((newest_position(_EVENTS), newest_position(_EXPOSURES)))


def can_be_arrivals(text: str) -> bool:
    """Return whether a text that a client sent can be such a position."""
    positions = text.split(_SEPARATOR)
    return len(positions) == 2 and all(map(is_position, positions))


def has_arrivals(experiment: Experiment, names: Collection[str], since: str) -> bool:
    """Return whether an exposure of the experiment, or an event with one of these names, has arrived since."""
    events, exposures = since.split(_SEPARATOR)
    if _has(_EXPOSURES, "experiment_id", exposures, "experiment_id = %s", [experiment.pk]):
        return True
    listed = ", ".join(["%s"] * len(names)) or "''"
    condition = f"environment_id = %s AND name IN ({listed})"
    return _has(_EVENTS, "environment_id, name", events, condition, [experiment.environment_id, *names])


def _has(table: str, columns: str, since: str, counts: str, values: list[Any]) -> bool:
    arrived, order, parameters = arrived_since_position(since)
    statement = _COUNTED.format(columns=columns, table=table, arrived=arrived, order=order, counts=counts)
    prepared = [_plain(value) for value in values]
    with connection.cursor() as cursor:
        cursor.execute(statement, [*prepared, *parameters, _MOST_SEARCHED])
        read, counted = cursor.fetchone()
    return bool(counted or read == _MOST_SEARCHED)


def _plain(value: Any) -> Any:
    """Return an id as the database stores it: SQLite has UUIDs as text without dashes."""
    return (
        getattr(value, "hex", value) if connection.vendor == "sqlite" and not isinstance(value, (int, str)) else value
    )
