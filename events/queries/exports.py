"""Exporting any number of events as a file, newest first, page by page.

Each page is a separate query, so no transaction stays open if the client reads slowly.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson

from config.csv_cells import escape
from config.timestamps import format_timestamp
from events.models import EventQuerySet, newest_first
from events.queries.pages import read_pages

PAGE = 1000
_COLUMNS = ("id", "name", "user_id", "timestamp", "received_at", "properties")
_NAMES = ("id", "event", "userId", "timestamp", "receivedAt", "properties")

Row = tuple[UUID, str, str, datetime, datetime, dict[str, Any]]
Page = Sequence[Row]


@dataclass(frozen=True, slots=True)
class Form:
    """A format of the file. `torn` is the invalid end of a file that breaks off, which no complete
    file has.
    """

    media_type: str
    render: Callable[[Page], bytes]
    head: bytes = b""
    torn: bytes = b""


def pages(events: EventQuerySet) -> Iterator[Page]:
    """Return the events in pages, newest first."""
    return read_pages(events, _COLUMNS, newest_first(), PAGE)


def write(pages: Iterable[Page], form: Form) -> Iterator[bytes]:
    """Yield the file piece by piece. After an error, the file ends within a record, and the error
    is raised.
    """
    yield form.head
    try:
        for page in pages:
            yield form.render(page)
    except Exception:
        yield form.torn
        raise


def _ndjson(page: Page) -> bytes:
    return b"".join([orjson.dumps(_record(row), option=orjson.OPT_APPEND_NEWLINE) for row in page])


def _record(row: Row) -> dict[str, Any]:
    """Return the event as the API returns it."""
    event_id, name, user_id, timestamp, received_at, properties = row
    moments = format_timestamp(timestamp), format_timestamp(received_at)
    return dict(zip(_NAMES, (event_id, name, user_id, *moments, properties), strict=True))


def _csv(page: Page) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    for row in page:
        *values, properties = _record(row).values()
        writer.writerow([*map(escape, values), orjson.dumps(properties).decode()])
    return text.getvalue().encode()


FORMS = {
    "ndjson": Form("application/x-ndjson", _ndjson, torn=b'{"error":"The export broke off here'),
    "csv": Form("text/csv", _csv, head=(",".join(_NAMES) + "\r\n").encode(), torn=b'"The export broke off here'),
}
