"""Reading any number of events in pages, of which each is a query of its own and begins after the one before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from config.database.expressions import after
from config.database.replica import ReplicaReads
from events.models import Event, EventQuerySet


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
