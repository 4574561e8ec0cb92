"""Which events were received steadily and have stopped, by the stored counts alone.

Counts are kept by quarter of an hour, so all times here are whole quarters.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import connection

from config.models import Environment
from events.counts.storage import QUARTER, quarter_of, start_of
from events.models import EventCount

WATCHED = timedelta(days=7)
"""How long before its last event the pauses of an event are measured."""
PATIENCE = 3
"""How many of its own longest pauses an event may be silent."""
LEAST_SILENCE = timedelta(hours=2)

_HOUR = timedelta(hours=1)
HOURS_WATCHED = WATCHED // _HOUR
_MOST_UNSTEADY = HOURS_WATCHED // 2
_TABLE = EventCount._meta.db_table
_NAMES = {"postgresql": "jsonb_array_elements_text(%s::jsonb)", "sqlite": "json_each(%s)"}
# The last quarter of each name is one search of the primary key. Only for names that are silent are the quarters before
# it read. A quarter counts if its stripes have a sum above 0: a stripe alone may be negative after an erasure.
_STOPPED = f"""
    WITH latest AS MATERIALIZED (
        SELECT wanted.value AS name, (
            SELECT counted.quarter FROM {_TABLE} AS counted
            WHERE counted.environment_id = %s AND counted.name = wanted.value AND counted.quarter <= %s
            AND counted.count > 0 ORDER BY counted.quarter DESC LIMIT 1
        ) AS quarter FROM {{names}} AS wanted
    ), silent AS MATERIALIZED (
        SELECT name, quarter FROM latest WHERE quarter < %s
    ), received AS (
        SELECT silent.name, silent.quarter AS last, counted.quarter FROM silent JOIN {_TABLE} AS counted
        ON counted.environment_id = %s AND counted.name = silent.name
        AND counted.quarter > silent.quarter - %s AND counted.quarter <= silent.quarter
        GROUP BY silent.name, silent.quarter, counted.quarter HAVING SUM(counted.count) > 0
    ), pauses AS (
        SELECT name, last, (last - quarter) / %s AS hour, quarter - LAG(quarter) OVER earlier AS pause,
            (last - LAG(quarter) OVER earlier) / %s AS hour_before
        FROM received WINDOW earlier AS (PARTITION BY name ORDER BY quarter)
    ), hours AS (
        SELECT name, last, SUM(CASE WHEN hour = hour_before THEN 0 ELSE 1 END) AS number, MAX(pause) AS longest_pause
        FROM pauses GROUP BY name, last
    )
    SELECT name, last, number, longest_pause FROM hours WHERE number > %s
"""  # noqa: S608 (no data)


@dataclass(frozen=True, slots=True)
class Stopped:
    """An event that has stopped: the time since which there was none, and how it was received before.

    `hours` of the `HOURS_WATCHED` up to its end had such events, and `longest_pause` was the longest time between
    two quarters with some.
    """

    since: datetime
    hours: int
    longest_pause: timedelta


def stopped_events(environment: Environment, names: Iterable[str], now: datetime) -> dict[str, Stopped]:
    """Return which of the names were received steadily and have stopped, with one query.

    An event was received steadily if most hours of the seven days up to its last one had some. It has stopped if it
    has been silent for more than `LEAST_SILENCE`, and for more than three times its longest pause in these days.
    """
    wanted = sorted({*names})
    if not wanted:
        return {}
    current = quarter_of(now)
    with connection.cursor() as cursor:
        # Text beyond ASCII is not escaped, because PostgreSQL refuses an escaped zero byte. The order of the parameters
        # is that of the statement.
        parameters: list[Any] = [
            *(environment.pk, current, json.dumps(wanted, ensure_ascii=False)),
            *(current - LEAST_SILENCE // QUARTER, environment.pk, WATCHED // QUARTER),
            *(_HOUR // QUARTER, _HOUR // QUARTER, _MOST_UNSTEADY),
        ]
        cursor.execute(_STOPPED.format(names=_NAMES[connection.vendor]), parameters)
        return {
            name: Stopped(start_of(last + 1), hours, pause * QUARTER)
            for name, last, hours, pause in cursor.fetchall()
            if current - last > PATIENCE * pause
        }
