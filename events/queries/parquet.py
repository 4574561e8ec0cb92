"""Exporting events to Parquet, a file for each day, for a data warehouse."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any

import orjson
from django.db.models import Min

from config.database.replica import ReplicaReads
from config.models import Environment
from events.models import Event, unique_order
from events.queries.pages import read_pages

_COLUMNS = ("id", "name", "user_id", "timestamp", "received_at", "experiment", "variant", "properties")
_NAMES = ("id", "event", "user_id", "timestamp", "received_at", "experiment_id", "variant", "properties")
_PAGE = 5000


def days_to_write(environment: Environment, folder: Path, until: date, again: int) -> Iterator[date]:
    """Yield the days before `until` that have no file yet, and the last ones again: events may arrive late."""
    events = Event.objects.filter(environment=environment)
    first = ReplicaReads(Event).read(lambda: events.aggregate(first=Min("timestamp"))["first"])
    day = until if first is None else first.astimezone(UTC).date()
    while day < until:
        if not file_of(folder, environment, day).exists() or (until - day).days <= again:
            yield day
        day += timedelta(days=1)


def file_of(folder: Path, environment: Environment, day: date) -> Path:
    """Return the file of a day, in folders that data warehouses read as columns."""
    return folder / f"environment={environment.key}" / f"date={day:%Y-%m-%d}" / "events.parquet"


def write_day(environment: Environment, folder: Path, day: date) -> int:
    """Write the file of a day and return the number of its events. It appears once it is whole."""
    import pyarrow  # noqa: PLC0415 (optional)
    from pyarrow import parquet  # noqa: PLC0415

    file = file_of(folder, environment, day)
    file.parent.mkdir(parents=True, exist_ok=True)
    unfinished = file.with_name(".unfinished")
    moment = pyarrow.timestamp("us", tz="UTC")
    types = {"timestamp": moment, "received_at": moment}
    schema = pyarrow.schema([(name, types.get(name, pyarrow.string())) for name in _NAMES])
    start = datetime.combine(day, time(), UTC)
    events = Event.objects.filter(
        environment=environment, timestamp__gte=start, timestamp__lt=start + timedelta(days=1)
    )
    number = 0
    try:
        with parquet.ParquetWriter(unfinished, schema, compression="zstd") as writer:
            for page in read_pages(events, _COLUMNS, unique_order(), _PAGE):
                columns = [[*column] for column in zip(*map(_cells, page), strict=True)]
                writer.write_table(pyarrow.table(columns, schema=schema))
                number += len(page)
        unfinished.rename(file)
    finally:
        unfinished.unlink(missing_ok=True)
    return number


def _cells(row: tuple[Any, ...]) -> tuple[Any, ...]:
    event_id, *others, experiment, variant, properties = row
    return (str(event_id), *others, experiment or None, variant or None, orjson.dumps(properties).decode())
