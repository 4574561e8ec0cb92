"""Exporting any number of events: as NDJSON or CSV, newest first, or to Parquet, a file for each day.

Events are read in pages. Each page is a query of its own, so no transaction stays open if the client reads slowly.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import orjson
from django.db.models import Min

from config.csv_cells import escape
from config.database.expressions import after
from config.database.replica import ReplicaReads
from config.models import Environment
from config.timestamps import format_timestamp
from events.models import Event, EventQuerySet, newest_first, unique_order

PAGE_SIZE = 1000
_COLUMNS = ("id", "name", "user_id", "timestamp", "received_at", "properties")
_NAMES = ("id", "event", "userId", "timestamp", "receivedAt", "properties")

PARQUET_PAGE_SIZE = 5000
_PARQUET_COLUMNS = ("id", "name", "user_id", "timestamp", "received_at", "experiment", "variant", "properties")
_PARQUET_NAMES = ("id", "event", "user_id", "timestamp", "received_at", "experiment_id", "variant", "properties")

Row = tuple[UUID, str, str, datetime, datetime, dict[str, Any]]
Page = Sequence[Row]


@dataclass(frozen=True, slots=True)
class Format:
    """A format of the file. A file that breaks off ends with `broken_end`, which no complete file has."""

    media_type: str
    render: Callable[[Page], bytes]
    head: bytes = b""
    broken_end: bytes = b""


def read_pages(
    events: EventQuerySet, columns: Sequence[str], order: Sequence[str], size: int
) -> Iterator[list[tuple[Any, ...]]]:
    """Yield pages of these columns, which must have those of the order. No two events may be equal by the order."""
    rows = events.order_by(*order).values_list(*columns)
    places = [columns.index(column.removeprefix("-")) for column in order]
    reads = ReplicaReads(Event)
    page = reads.read(lambda: list(rows[:size]))
    while page:
        yield page
        if len(page) < size:
            return
        rest = rows.filter(after(order, [page[-1][place] for place in places]))
        page = reads.read(partial(list, rest[:size]))


def pages(events: EventQuerySet) -> Iterator[Page]:
    """Return the events in pages, newest first."""
    return read_pages(events, _COLUMNS, newest_first(), PAGE_SIZE)


def write(pages: Iterable[Page], file_format: Format) -> Iterator[bytes]:
    """Yield the file piece by piece. After an error, the file ends within a record, and the error is raised."""
    yield file_format.head
    try:
        for page in pages:
            yield file_format.render(page)
    except Exception:
        yield file_format.broken_end
        raise


def _ndjson(page: Page) -> bytes:
    return b"".join([orjson.dumps(_record(row), option=orjson.OPT_APPEND_NEWLINE) for row in page])


def _record(row: Row) -> dict[str, Any]:
    """Return the event as the API returns it."""
    event_id, name, user_id, timestamp, received_at, properties = row
    times = format_timestamp(timestamp), format_timestamp(received_at)
    return dict(zip(_NAMES, (event_id, name, user_id, *times, properties), strict=True))


def _csv(page: Page) -> bytes:
    file = io.StringIO(newline="")
    writer = csv.writer(file)
    for row in page:
        *values, properties = _record(row).values()
        writer.writerow([*map(escape, values), orjson.dumps(properties).decode()])
    return file.getvalue().encode()


FORMATS = {
    "ndjson": Format("application/x-ndjson", _ndjson, broken_end=b'{"error":"The export broke off here'),
    "csv": Format(
        "text/csv", _csv, head=(",".join(_NAMES) + "\r\n").encode(), broken_end=b'"The export broke off here'
    ),
}


def days_to_write(environment: Environment, folder: Path, until: date, again: int) -> Iterator[date]:
    """Yield the days before `until` that have no Parquet file yet, and the last ones again: events may arrive late."""
    events = Event.objects.filter(environment=environment)
    first = ReplicaReads(Event).read(lambda: events.aggregate(first=Min("timestamp"))["first"])
    day = until if first is None else first.astimezone(UTC).date()
    while day < until:
        if not parquet_file(folder, environment, day).exists() or (until - day).days <= again:
            yield day
        day += timedelta(days=1)


def parquet_file(folder: Path, environment: Environment, day: date) -> Path:
    """Return the file of a day, in folders that data warehouses read as columns."""
    return folder / f"environment={environment.key}" / f"date={day:%Y-%m-%d}" / "events.parquet"


def write_day(environment: Environment, folder: Path, day: date) -> int:
    """Write the Parquet file of a day, which appears once it is whole, and return the number of its events."""
    import pyarrow  # noqa: PLC0415 (optional)
    from pyarrow import parquet  # noqa: PLC0415

    file = parquet_file(folder, environment, day)
    file.parent.mkdir(parents=True, exist_ok=True)
    unfinished = file.with_name(".unfinished")
    timestamp = pyarrow.timestamp("us", tz="UTC")
    types = {"timestamp": timestamp, "received_at": timestamp}
    schema = pyarrow.schema([(name, types.get(name, pyarrow.string())) for name in _PARQUET_NAMES])
    start = datetime.combine(day, time(), UTC)
    events = Event.objects.filter(
        environment=environment, timestamp__gte=start, timestamp__lt=start + timedelta(days=1)
    )
    number = 0
    try:
        with parquet.ParquetWriter(unfinished, schema, compression="zstd") as writer:
            for page in read_pages(events, _PARQUET_COLUMNS, unique_order(), PARQUET_PAGE_SIZE):
                columns = [[*column] for column in zip(*map(_parquet_cells, page), strict=True)]
                writer.write_table(pyarrow.table(columns, schema=schema))
                number += len(page)
        unfinished.rename(file)
    finally:
        unfinished.unlink(missing_ok=True)
    return number


def _parquet_cells(row: tuple[Any, ...]) -> tuple[Any, ...]:
    event_id, *others, experiment, variant, properties = row
    return (str(event_id), *others, experiment or None, variant or None, orjson.dumps(properties).decode())
