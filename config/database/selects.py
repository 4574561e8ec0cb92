"""What querysets cannot say: INSERT ... SELECT, DELETE ... RETURNING, several rows from one, and querysets over rows of
no table.

All values are parameters of the querysets. What is put together here are names of tables and columns of models.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any, TypeVar

import orjson
from django.db import connection
from django.db.models import Expression, Field, IntegerField, Model, QuerySet
from django.db.models.sql import DeleteQuery
from django.db.models.sql.datastructures import BaseTable

from config.database.engines import Engine, engine, is_distributed

Row = TypeVar("Row", bound=Model)


@dataclass(frozen=True, slots=True)
class Select:
    """A SELECT statement, its parameters, and the names of its columns in order."""

    sql: str
    params: tuple[Any, ...]
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NonZero:
    """A column of a wide row, or NULL where it is 0."""

    column: str


@dataclass(frozen=True, slots=True)
class Indicator:
    """Whether a column of a wide row has a value: 1 or NULL."""

    column: str
    value: int


@dataclass(frozen=True, slots=True)
class Part:
    """One of the rows that a wide row becomes: where each of its columns comes from.

    A text names a column of the wide row. The row is left out where the column `required` is 0 or NULL, and where all
    columns but the plain ones are NULL.
    """

    number: int
    sources: Mapping[str, str | NonZero | Indicator]
    required: str = ""
    is_flagged: bool = False


def select_of(queryset: QuerySet[Any, Any]) -> Select:
    """Return the SELECT of a queryset, whose columns follow `values()` and its annotations."""
    sql, params = queryset.query.sql_with_params()
    return Select(sql, tuple(params), (*(queryset.query.selected or ()),))


def insert_select(model: type[Model], *selects: Select, order_by: str, **same: int) -> None:
    """Store the rows of SELECTs in the order of a column.

    The columns of a SELECT are named like fields of the model. Those that another one has besides are NULL, and those
    in `same` have one value in all rows.
    """
    # Rows of several SELECTs would go through the coordinator of Citus.
    for together in [(select,) for select in selects] if is_distributed() else [selects]:
        _insert_select(model, together, order_by, same)


def _insert_select(model: type[Model], selects: Sequence[Select], order_by: str, same: Mapping[str, int]) -> None:
    names = [*dict.fromkeys(chain(*(select.columns for select in selects)))]
    fields: list[Any] = [model._meta.get_field(name) for name in (*same, *names)]
    columns = ", ".join(_quoted(field.column) for field in fields)
    rows = " UNION ALL ".join(_aligned(select, fields[len(same) :]) for select in selects)
    values = ", ".join([*["%s"] * len(same), *map(_quoted, names)])
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {_quoted(model._meta.db_table)} ({columns}) "  # noqa: S608 (names of columns)
            f"SELECT {values} FROM ({rows}) AS stored ORDER BY {_quoted(order_by)}",
            [*same.values(), *chain(*(select.params for select in selects))],
        )


def _aligned(select: Select, fields: Sequence[Any]) -> str:
    """Return a SELECT with a column for each field."""
    values = {
        field.name: _quoted(field.name)
        if field.name in select.columns
        else f"CAST(NULL AS {field.db_type(connection)})"
        for field in fields
    }
    named = ", ".join(f"{value} AS {_quoted(name)}" for name, value in values.items())
    return f"SELECT {named} FROM ({select.sql}) AS selected"  # noqa: S608 (names of columns)


def unpivoted(
    model: type[Model], wide: Select, keys: Sequence[str], parts: Sequence[Part], names: Sequence[str]
) -> Select:
    """Return a SELECT of rows of a model: a row for each part of each row of a wide one.

    A row has the `keys` of the wide row, the number of its part as `metric`, whether the part is flagged as `is_ranked`
    (TRUE or NULL), and the columns `names`. Those that its part lacks are NULL.
    """
    fields: list[Any] = [model._meta.get_field(name) for name in names]
    columns = {field.name: _by_part(parts, field.name, field.db_type(connection)) for field in fields}
    columns["is_ranked"] = _case({part.number: "TRUE" for part in parts if part.is_flagged}, "boolean")
    columns["metric"] = "part.number"
    selected = [*map(_quoted, keys), *(f"{value} AS {_quoted(name)}" for name, value in columns.items())]
    numbers = _numbers([part.number for part in parts])
    is_kept = _case({part.number: _is_kept(part) for part in parts}, "boolean")
    sql = (
        f"SELECT {', '.join(selected)} FROM ({wide.sql}) AS wide "  # noqa: S608 (names of columns)
        f"CROSS JOIN {numbers} WHERE {is_kept}"
    )
    return Select(sql, wide.params, (*keys, *columns))


def rows_of(model: type[Row], select: Select, *, is_fenced: bool = False) -> QuerySet[Row, Row]:
    """Return a queryset of a model over the rows of a SELECT, in place of the rows of its table.

    The SELECT has the columns that the queryset uses. Only this table is replaced; tables that are joined are not.
    If it is fenced, each of its columns is computed once for each row, however often the queryset uses it.
    """
    queryset = model._default_manager.order_by()
    rows = replace(select, sql=f"{select.sql}{_FENCES[engine()]}") if is_fenced else select
    queryset.query.base_table_class = partial(_Rows, rows)  # type: ignore[assignment]
    return queryset


def rows_with(model: type[Row], name: str, values: Iterable[str]) -> QuerySet[Row, Row]:
    """Return a queryset of a model over rows that have only these values of one text field."""
    field: Any = model._meta.get_field(name)
    texts = {"postgresql": "jsonb_array_elements_text(%s::jsonb)", "sqlite": "json_each(%s)"}[connection.vendor]
    sql = f"SELECT texts.value AS {_quoted(field.column)} FROM {texts} AS texts"  # noqa: S608 (names of columns)
    return rows_of(model, Select(sql, (orjson.dumps([*values]).decode(),), (name,)))


def delete_returning(rows: QuerySet[Any, Any], *names: str, skip_locked: bool = False) -> list[tuple[Any, ...]]:
    """Delete the rows of a queryset, and return these fields of each deleted row.

    The ORM does not say which rows it has deleted: a row that another transaction deletes meanwhile counts for that
    one. A queryset with a limit locks its rows in its order. On Citus it must have no limit, because the places of rows
    on several servers say nothing.
    """
    compiler: Any
    if rows.query.is_sliced:
        compiler, delete, params = _delete_at_places(rows, skip_locked=skip_locked)
    else:
        compiler = rows.query.chain(DeleteQuery).get_compiler(connection=connection)
        delete, params = compiler.as_sql()
    fields: list[Any] = [rows.model._meta.get_field(name) for name in names]
    converters = compiler.get_converters([field.get_col(rows.model._meta.db_table) for field in fields])
    with connection.cursor() as cursor:
        cursor.execute(f"{delete} RETURNING {', '.join(_quoted(field.column) for field in fields)}", params)
        return [*map(tuple, compiler.apply_converters(cursor.fetchall(), converters))]


def _delete_at_places(rows: QuerySet[Any, Any], *, skip_locked: bool) -> tuple[Any, str, Sequence[Any]]:
    """A row's physical place is stable while the row is locked. By ids, PostgreSQL would search the whole table."""
    place, is_chosen = {"postgresql": ("ctid", "ctid = ANY (ARRAY({}))"), "sqlite": ("rowid", "rowid IN ({})")}[
        connection.vendor
    ]
    chosen = rows.annotate(place=Column(place, IntegerField())).values("place")
    compiler: Any = chosen.select_for_update(skip_locked=skip_locked).query.get_compiler(connection=connection)
    sql, params = compiler.as_sql()
    return compiler, f"DELETE FROM {_quoted(rows.model._meta.db_table)} WHERE {is_chosen.format(sql)}", params  # noqa: S608 (names of columns)


# For a fence, Citus would send the rows of all users to the coordinator.
_FENCES = {Engine.POSTGRESQL: " OFFSET 0", Engine.SQLITE: " LIMIT -1", Engine.CITUS: ""}
"""What keeps the planner from merging a subquery into its surroundings."""


class Column(Expression):
    """A column of such rows that is no field of the model."""

    def __init__(self, name: str, output_field: Field[Any, Any]) -> None:
        super().__init__(output_field=output_field)
        self.name = name

    def as_sql(self, compiler: Any, connection: Any) -> Any:
        return f"{compiler.quote_name_unless_alias(compiler.query.base_table)}.{_quoted(self.name)}", []

    def get_group_by_cols(self) -> list[Any]:
        return [self]


class _Rows(BaseTable):
    """A SELECT in the place of a table in FROM."""

    def __init__(self, select: Select, table_name: str, alias: str | None) -> None:
        super().__init__(table_name, alias)
        self._select = select

    def as_sql(self, compiler: Any, connection: Any) -> Any:
        name = compiler.quote_name_unless_alias(self.table_alias or self.table_name)
        return f"({self._select.sql}) {name}", [*self._select.params]

    def relabeled_clone(self, change_map: Mapping[str | None, str]) -> _Rows:
        return _Rows(self._select, self.table_name, change_map.get(self.table_alias, self.table_alias))

    @property
    def identity(self) -> tuple[Any, ...]:
        return (*super().identity, self._select)


def _numbers(numbers: Sequence[int]) -> str:
    """Return the table `part` of these numbers. What UNION makes of them would go through the coordinator of Citus."""
    if connection.vendor == "postgresql":
        return f"unnest(ARRAY[{', '.join(map(str, numbers))}]) AS part (number)"
    return f"({' UNION ALL '.join(f'SELECT {number} AS number' for number in numbers)}) AS part"


def _by_part(parts: Sequence[Part], name: str, db_type: str) -> str:
    return _case({part.number: _column(part.sources[name]) for part in parts if name in part.sources}, db_type)


def _case(by_number: Mapping[int, str], db_type: str) -> str:
    """Return the expression of each part by its number, else NULL.

    A row of VALUES for each part would read better, but PostgreSQL prepares its expressions again for each wide row.
    What Citus sends to its workers of `CASE part.number WHEN ...` fails there.
    """
    whens = " ".join(f"WHEN part.number = {number} THEN {expression}" for number, expression in by_number.items())
    return f"CASE {whens} END" if whens else f"CAST(NULL AS {db_type})"


def _is_kept(part: Part) -> str:
    values = (_column(source) for source in part.sources.values() if not isinstance(source, str))
    is_any = " OR ".join(f"{value} IS NOT NULL" for value in values)
    return f"{_column(NonZero(part.required))} IS NOT NULL AND ({is_any})" if part.required else is_any


def _column(source: str | NonZero | Indicator) -> str:
    match source:
        case NonZero(column):
            return f"NULLIF(wide.{_quoted(column)}, 0)"
        case Indicator(column, value):
            return f"CASE WHEN wide.{_quoted(column)} = {value} THEN 1 END"
        case _:
            return f"wide.{_quoted(source)}"


def _quoted(name: str) -> str:
    return connection.ops.quote_name(name)
