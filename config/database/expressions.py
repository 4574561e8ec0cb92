"""Expressions that Django lacks: the rows after one in an order, and the values of a subquery as a list."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db.models import JSONField, Subquery
from django.db.models.fields.tuple_lookups import TupleGreaterThan, TupleLessThan, TupleLookupMixin


class _InOneComparison(TupleLookupMixin):
    """`(a, b) < (x, y)` as one comparison, which bounds the scan of an index even if many rows have the same `a`.

    Django expands it on SQLite, which then reads the index from its beginning. SQLite supports the short form, too.
    """

    def as_sqlite(self, compiler: Any, connection: Any, **_: Any) -> Any:
        return super(TupleLookupMixin, self).as_sql(compiler, connection)  # type: ignore[misc]  # of the lookup


class _Less(_InOneComparison, TupleLessThan):
    pass


class _Greater(_InOneComparison, TupleGreaterThan):
    pass


def after(ordering: Sequence[str], values: Sequence[Any]) -> Any:
    """Return the condition for the rows after the one with these values, which costs the same for each page.

    The columns of the ordering must be unique together, and all descending (`-timestamp`, `-id`) or all ascending.
    """
    lookup = _Less if ordering[0].startswith("-") else _Greater
    return lookup(tuple(name.removeprefix("-") for name in ordering), tuple(values))


class ListOf(Subquery):
    """The values of a subquery of one column, in any order."""

    output_field = JSONField()
    template = "to_jsonb(ARRAY(%(subquery)s))"

    def as_sqlite(self, compiler: Any, connection: Any, **_: Any) -> Any:
        [column] = self.query.selected  # type: ignore[misc]  # what `values()` has named
        template = "(SELECT json_group_array(%(column)s) FROM (%(subquery)s))"
        return self.as_sql(compiler, connection, template=template, column=connection.ops.quote_name(column))
