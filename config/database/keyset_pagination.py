"""Rows after a given one in an order: what paging and exports go on from, at the price of the first rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db.models.fields.tuple_lookups import TupleGreaterThan, TupleLessThan, TupleLookupMixin


class _InOneComparison(TupleLookupMixin):
    """`(a, b) < (x, y)`, which a scan of an index begins and ends by, however many rows have the same `a`.

    SQLite reads it as PostgreSQL does; Django spells it out there, and the index would be read from its beginning.
    """

    def as_sqlite(self, compiler: Any, connection: Any, **_: Any) -> Any:
        return super(TupleLookupMixin, self).as_sql(compiler, connection)  # type: ignore[misc]  # of the lookup


class _Less(_InOneComparison, TupleLessThan):
    pass


class _Greater(_InOneComparison, TupleGreaterThan):
    pass


def after(ordering: Sequence[str], values: Sequence[Any]) -> Any:
    """The condition of the rows that come later than the one with these values.

    The ordering names columns that together are unique, all of them descending (`-timestamp`, `-id`) or none.
    """
    lookup = _Less if ordering[0].startswith("-") else _Greater
    return lookup(tuple(name.removeprefix("-") for name in ordering), tuple(values))
