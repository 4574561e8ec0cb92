"""What SQLite and PostgreSQL write differently, as expressions of Django. No other module has such templates.

Templates hold no data: values and the names of properties are parameters. SQLite stores moments as texts that sort by
time. Its JSON paths mean different things in different versions, so that properties are found by `json_each`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

from django.db import NotSupportedError
from django.db.backends.signals import connection_created
from django.db.models import (
    Aggregate,
    BooleanField,
    Count,
    DateField,
    DateTimeField,
    FloatField,
    Func,
    IntegerField,
    TextField,
    Value,
    Window,
)

from config.database.engines import is_distributed
from config.database.insertion import array
from experiments.models.fields import EXACT, ExactField

LETTERS = "abcdefghij"
"""Stand for the steps of a funnel."""

Sql = Any
"""A statement's text and its parameters, as Django's compiler takes them."""

_MIN_FLOAT = 2**63
"""The smallest number that is no integer of SQLite."""
_PLACE = re.compile(r"\{(\d)\}")


class Template(Func):
    """An expression with a template for each database, which names its source expressions as `{0}`, `{1}` and so on."""

    postgresql = sqlite = ""

    def as_postgresql(self, compiler: Any, connection: Any, **_: Any) -> Sql:
        return self._filled(self.postgresql, compiler)

    def as_sqlite(self, compiler: Any, connection: Any, **_: Any) -> Sql:
        return self._filled(self.sqlite, compiler)

    def _filled(self, template: str, compiler: Any) -> Sql:
        if not template:
            raise NotSupportedError(f"{type(self).__name__} has no SQL for this database.")
        compiled = [compiler.compile(expression) for expression in self.source_expressions]
        places = [int(place) for place in _PLACE.findall(template)]
        sql = _PLACE.sub(lambda place: compiled[int(place[1])][0], template)
        return sql, [parameter for place in places for parameter in compiled[place][1]]


# moments


class FloorSecond(Template):
    """A moment without the fraction of its second.

    Casting rounds an exact half of a second up. Truncating takes PostgreSQL five times as long.
    """

    output_field = DateTimeField()
    postgresql = "({0} - interval '0.5 seconds')::timestamptz(0)"
    sqlite = "substr({0}, 1, 19)"


class AddSeconds(Template):
    """A moment in whole seconds plus a number of seconds."""

    output_field = DateTimeField()
    postgresql = "({0} + {1} * interval '1 second')"
    sqlite = "datetime({0}, {1} || ' seconds')"


class UTCDay(Template):
    """The day of a moment, in UTC."""

    output_field = DateField()
    postgresql = "({0} AT TIME ZONE 'UTC')::date"
    sqlite = "substr({0}, 1, 10)"


class DaysBetween(Template):
    """The number of whole days from a moment in whole seconds to a later moment."""

    output_field = IntegerField()
    postgresql = "FLOOR(EXTRACT(EPOCH FROM {1} - {0}) / 86400)::int"
    sqlite = "((CAST(strftime('%%s', substr({1}, 1, 19)) AS INTEGER) - CAST(strftime('%%s', {0}) AS INTEGER)) / 86400)"


class Microseconds(Template):
    """The number of microseconds from 1970 to a moment, as a float that is exact until 2106."""

    output_field = FloatField()
    postgresql = "round(date_part('epoch', {0}) * 1000000)"


# properties of events and attributes of users: an object in JSON and a name


class JSONType(Template):
    """`string`, `number`, `boolean`, `object` or `array`; NULL where the property is missing or null."""

    output_field = TextField()
    postgresql = "NULLIF(jsonb_typeof({0} -> {1}::text), 'null')"
    sqlite = (
        "(SELECT CASE type WHEN 'text' THEN 'string' WHEN 'integer' THEN 'number' WHEN 'real' THEN 'number' "
        "WHEN 'true' THEN 'boolean' WHEN 'false' THEN 'boolean' ELSE type END "
        "FROM json_each({0}) WHERE key = {1} AND type <> 'null')"
    )


class ExactNumber(Template):
    """The property if it is a number, as it was sent, else NULL."""

    output_field = FloatField()
    postgresql = "CASE WHEN jsonb_typeof({0} -> {1}::text) = 'number' THEN ({0} -> {1}::text)::numeric END"
    sqlite = "(SELECT value FROM json_each({0}) WHERE key = {1} AND type IN ('integer', 'real'))"


class Number(Template):
    """The property if it is a number, else NULL.

    Numbers above 1e100 count as that, and those below 1e-100 as 0, so that floats can hold the squares of all values.
    """

    output_field = FloatField()
    postgresql = (
        "CASE WHEN jsonb_typeof({0} -> {1}::text) = 'number' THEN "
        "CASE WHEN ABS(({0} -> {1}::text)::numeric) < 1e-100 THEN 0 "
        "ELSE GREATEST(-1e100, LEAST(1e100, ({0} -> {1}::text)::numeric)) END END"
    )
    sqlite = (
        "(SELECT CASE WHEN value > -1e-100 AND value < 1e-100 THEN 0.0 "
        "ELSE CAST(MAX(-1e100, MIN(1e100, value)) AS REAL) END "
        "FROM json_each({0}) WHERE key = {1} AND type IN ('integer', 'real'))"
    )


class Text(Template):
    """The property if it is a text, else NULL."""

    output_field = TextField()
    postgresql = "CASE WHEN jsonb_typeof({0} -> {1}::text) = 'string' THEN {0} ->> {1}::text END"
    sqlite = "(SELECT value FROM json_each({0}) WHERE key = {1} AND type = 'text')"


class Boolean(Template):
    """`true` or `false` if the property is a boolean, or one of these texts in upper or lower case; else NULL."""

    output_field = TextField()
    postgresql = (
        "CASE WHEN jsonb_typeof({0} -> {1}::text) IN ('boolean', 'string') "
        "AND lower(({0} ->> {1}::text) COLLATE \"C\") IN ('true', 'false') "
        'THEN lower(({0} ->> {1}::text) COLLATE "C") END'
    )
    sqlite = (
        "(SELECT CASE WHEN type = 'text' THEN lower(value) ELSE type END FROM json_each({0}) WHERE key = {1} "
        "AND (type IN ('true', 'false') OR (type = 'text' AND lower(value) IN ('true', 'false'))))"
    )


class Scalar(Template):
    """The property as JSON if it is a text, a number or a boolean, else NULL.

    1 and 1.0 are equal; true, 1 and "1" differ.
    """

    output_field = TextField()
    postgresql = "CASE WHEN jsonb_typeof({0} -> {1}::text) IN ('string', 'number', 'boolean') THEN {0} -> {1}::text END"
    # `|| ''` makes a text of it: an aggregate such as json_group_array would take in the JSON itself. SQLite writes
    # floats with 15 digits, so that some would become equal.
    sqlite = (
        "(SELECT CASE WHEN type IN ('true', 'false') THEN type WHEN typeof(value) = 'real' THEN float_as_json(value) "
        "ELSE json_quote(value) END || '' FROM json_each({0}) "
        "WHERE key = {1} AND type IN ('text', 'integer', 'real', 'true', 'false'))"
    )


class UpperASCII(Template):
    """A text with the letters a to z in upper case."""

    output_field = TextField()
    postgresql = 'upper({0} COLLATE "C")'
    sqlite = "upper({0})"


class Joined(Func):
    """Texts one after another.

    Django's `Concat` nests them by twos, and SQLite reads a statement with fewer than a hundred levels only.
    """

    function = "CONCAT"
    output_field = TextField()

    def as_sqlite(self, compiler: Any, connection: Any, **_: Any) -> Sql:
        return super().as_sql(compiler, connection, template="(%(expressions)s)", arg_joiner=" || ")


class NumberValue(Value):
    """A number to compare with `ExactNumber`. PostgreSQL would make floats of both if this one were a float.

    In JSON, SQLite has integers from 2^63 on as floats, and takes no such parameter.
    """

    def as_sqlite(self, compiler: Any, connection: Any, **_: Any) -> Sql:
        is_large = isinstance(self.value, int) and not -_MIN_FLOAT <= self.value < _MIN_FLOAT
        return "%s", [float(self.value) if is_large else self.value]

    def as_postgresql(self, compiler: Any, connection: Any, **_: Any) -> Sql:
        return "%s::numeric", [repr(self.value)]


class TextList(Value):
    """Several texts as one parameter, however many there are."""

    def as_postgresql(self, compiler: Any, connection: Any, **_: Any) -> Sql:
        return "%s::text[]", [array(self.value) or "{}"]

    def as_sqlite(self, compiler: Any, connection: Any, **_: Any) -> Sql:
        return "%s", [json.dumps([*self.value])]


class PlaceInList(Template):
    """The place of an attribute, from 0, in a list of values in JSON: its end without the attribute, else NULL."""

    output_field = IntegerField()
    postgresql = "array_position({0}::jsonb[], COALESCE({1}, 'null')) - 1"
    sqlite = "(SELECT listed.key FROM json_each({0}) AS listed WHERE listed.value = COALESCE({1}, 'null'))"

    def __init__(self, attributes: Any, name: Any, values: Sequence[str], **extra: Any) -> None:
        super().__init__(TextList([*values, "null"], TextField()), Scalar(attributes, name), **extra)


# conditions


class IsTrue(Template):
    """A condition that is tested row by row: no index finds its rows, and no join replaces its subquery."""

    output_field = BooleanField()
    postgresql = sqlite = "(({0}) IS TRUE)"


class IsOneOf(Template):
    """Whether a text is one of several, which are one parameter."""

    output_field = BooleanField()
    postgresql = "{0} = ANY ({1})"
    sqlite = "{0} IN (SELECT value FROM json_each({1}))"

    def __init__(self, text: Any, members: Sequence[str], **extra: Any) -> None:
        super().__init__(text, TextList(members, TextField()), **extra)

    def as_postgresql(self, compiler: Any, connection: Any, **options: Any) -> Sql:
        # By a constant array, Citus would leave out servers, and replace their tables by empty ones without keys,
        # which statements need that group by these. PostgreSQL itself hashes a constant array.
        return self._filled("{0} = ANY (ARRAY(SELECT unnest({1})))" if is_distributed() else self.postgresql, compiler)


# aggregates


class CountDistinct(Count):
    """The number of different values over all rows."""

    def __init__(self, value: Any, **extra: Any) -> None:
        super().__init__(value, distinct=True, **extra)


class Path(Aggregate):
    """The events of a user in order, from the letters of the steps of a funnel that each event meets, and its moment.

    Each event is `|` and its letters. Events of the same moment are in the order of their letters.
    """

    arity = 2
    output_field = TextField()

    def as_postgresql(self, compiler: Any, connection: Any, **_: Any) -> Sql:
        (letters, of_letters), (moment, of_moment) = map(compiler.compile, self.source_expressions[:2])
        condition, of_condition = _condition(self, compiler)
        path = f"string_agg({letters}, '' ORDER BY {moment}, {letters} COLLATE \"C\"){condition}"
        return path, [*of_letters, *of_moment, *of_letters, *of_condition]

    def as_sqlite(self, compiler: Any, connection: Any, **_: Any) -> Sql:
        """Return a list in JSON, because SQLite's aggregates have no order; `_steps_passed` sorts it."""
        (letters, of_letters), (moment, of_moment) = map(compiler.compile, self.source_expressions[:2])
        condition, of_condition = _condition(self, compiler)
        # A moment of a whole second has no fraction. 26 characters sort by time.
        path = f"json_group_array(substr({moment} || '.000000', 1, 26) || {letters}){condition}"
        return path, [*of_moment, *of_letters, *of_condition]


class StepsPassed(Func):
    """How many steps of a funnel a path passes in order.

    With `%a%|%b%`, a later event than the one of step a meets step b, so that no event serves two steps.
    """

    output_field = IntegerField()

    def __init__(self, path: Any, steps: int = 1, **extra: Any) -> None:
        super().__init__(path, steps=steps, **extra)

    def as_postgresql(self, compiler: Any, connection: Any, **_: Any) -> Sql:
        path, params = compiler.compile(self.source_expressions[0])
        steps = range(self.extra["steps"], 0, -1)
        reached = " ".join(f"WHEN {path} LIKE '{_pattern(step)}' THEN {step}" for step in steps)
        return f"CASE {reached} ELSE 0 END", [*params] * len(steps)

    def as_sqlite(self, compiler: Any, connection: Any, **_: Any) -> Sql:
        path, params = compiler.compile(self.source_expressions[0])
        return f"{_STEPS_PASSED}({path})", [*params]


def of_day(aggregate: Aggregate) -> Aggregate:
    """Return the aggregate over the rows of one day from which `until_each_day` makes one over several days."""
    if isinstance(aggregate, CountDistinct):
        [value, *_] = aggregate.get_source_expressions()
        return _ListOfDay(_ListedValue(value), filter=aggregate.filter)
    return aggregate


def until_each_day(aggregate: Aggregate, values: Any, partition: Any, day: str) -> Any:
    """Return what there is of an aggregate until the end of each day, given its values `of_day`; see `in_all`."""
    match aggregate:
        case CountDistinct():
            until: Any = _ListOfDays(values)
        case Path():
            until = _PathOfDays(values)
        case _:
            until = _Total(values)
    return Window(until, partition_by=partition, order_by=day)


def in_all(aggregate: Aggregate, until: Any) -> Any:
    """Return an aggregate over all rows until the end of a day, given the column with what there is of it.

    PostgreSQL takes the members of a list from a column alone, not from a window.
    """
    return _DistinctInLists(until) if isinstance(aggregate, CountDistinct) else until


class _Total(Func):
    """The sum of sums, or of numbers."""

    function = "SUM"
    window_compatible = True


class FirstDay(Func):
    """The first of several days."""

    function = "MIN"
    window_compatible = True
    output_field = DateField()


class _PathOfDays(Template):
    """The path of several days."""

    window_compatible = True
    output_field = TextField()
    postgresql = "string_agg({0}, '')"
    sqlite = "json_group_array({0})"


class _ListedValue(Template):
    """A value as a member of a list, or as a key of an object: of values that are equal, the texts are, too."""

    output_field = TextField()
    postgresql = (
        "CASE WHEN jsonb_typeof(to_jsonb({0})) = 'number' THEN trim_scale(to_jsonb({0})::numeric)::text "
        "ELSE to_jsonb({0})::text END"
    )
    sqlite = "{0}"


class _ListOfDay(Aggregate):
    """The different values other than NULL of one day: in SQLite a list in JSON, in PostgreSQL the inside of an object.

    An object has each of its keys once, so that PostgreSQL counts the keys of all days. Citus 13.2 crashes on a
    subquery that takes lists apart.
    """

    output_field = TextField()

    def as_postgresql(self, compiler: Any, connection: Any, **_: Any) -> Sql:
        value, of_value = compiler.compile(self.source_expressions[0])
        condition, of_condition = compiler.compile(self.filter)
        listed = (
            "trim('{}' FROM (jsonb_object_agg("
            f"{value}, true) FILTER (WHERE {condition} AND {value} IS NOT NULL))::text)"
        )
        return listed, [*of_value, *of_condition, *of_value]

    def as_sqlite(self, compiler: Any, connection: Any, **_: Any) -> Sql:
        value, of_value = compiler.compile(self.source_expressions[0])
        condition, of_condition = _condition(self, compiler)
        return f"json_group_array({value}){condition}", [*of_value, *of_condition]


class _ListOfDays(Template):
    """The lists of several days."""

    window_compatible = True
    output_field = TextField()
    postgresql = "string_agg({0}, ',')"
    sqlite = "json_group_array({0})"


class _DistinctInLists(Template):
    """The number of different values in the lists of several days. A day without values has NULL in PostgreSQL."""

    output_field = IntegerField()
    postgresql = "jsonb_array_length(jsonb_path_query_array(('{' || COALESCE({0}, '') || '}')::jsonb, '$.keyvalue()'))"
    sqlite = "distinct_in_lists({0})"


def _condition(aggregate: Aggregate, compiler: Any) -> Sql:
    """Return the FILTER clause of an aggregate, and its parameters."""
    if aggregate.filter is None:
        return "", []
    condition, params = compiler.compile(aggregate.filter)
    return f" FILTER (WHERE {condition})", [*params]


def _pattern(steps: int) -> str:
    return "|".join(f"%%{letter}%%" for letter in LETTERS[:steps])


class Exact(Template):
    """A float as the decimal number that it prints as, so that sums lose no digit."""

    output_field = ExactField()
    postgresql = "({0})::numeric"
    sqlite = "{0}"


class Float(Template):
    """A number as a float."""

    output_field = FloatField()
    postgresql = "({0})::float8"
    sqlite = "CAST({0} AS REAL)"


class ExactSum(Aggregate):
    """The exact sum of decimal numbers."""

    function = "SUM"
    output_field = ExactField()

    def as_sqlite(self, compiler: Any, connection: Any, **options: Any) -> Any:
        return super().as_sql(compiler, connection, function=_EXACT_SUM, **options)


class Bucket(Func):
    """The number of the part in which a value lies, given the least value of each part but the first."""

    output_field = IntegerField()

    def __init__(self, value: Any, thresholds: Sequence[float], **extra: Any) -> None:
        super().__init__(value, **extra)
        self.thresholds = thresholds

    def as_postgresql(self, compiler: Any, connection: Any, **_: Any) -> Sql:
        value, params = compiler.compile(self.source_expressions[0])
        return f"width_bucket({value}, %s::float8[])", [*params, [*self.thresholds]]


# functions of SQLite

_EXACT_SUM, _STEPS_PASSED, _DISTINCT_IN_LISTS = "exact_sum", "steps_passed", "distinct_in_lists"
_FLOAT_AS_JSON = "float_as_json"


class _ExactSum:
    """An exact SUM, because SQLite's own adds floats."""

    def __init__(self) -> None:
        self.sum = Decimal(0)

    def step(self, value: float | str | None) -> None:
        if value is not None:
            self.sum = EXACT.add(self.sum, Decimal(value if isinstance(value, str) else repr(value)))

    def finalize(self) -> str:
        return str(self.sum)


def _steps_passed(path: str) -> int:
    """Return how many steps the events of a user pass, from a list of their moments and letters, or a list by day."""
    passed = 0
    for event in sorted(_flattened(path)):
        passed += f"{LETTERS}."[passed] in event[26:]
    return passed


def _float_as_json(value: float) -> str:
    """Return a float with the digits that it takes to tell it from others; a whole number has no fraction."""
    return str(int(value)) if value.is_integer() else repr(value)


def _distinct_in_lists(lists: str) -> int:
    return len({value for value in _flattened(lists) if value is not None})


def _flattened(lists: str) -> Iterator[Any]:
    """Yield the members of a list in JSON, or of the lists in JSON that are its members."""
    for member in json.loads(lists):
        if isinstance(member, str) and member.startswith("["):
            yield from json.loads(member)
        else:
            yield member


def _add_functions(*, connection: Any, **_: Any) -> None:
    if connection.vendor == "sqlite":
        connection.connection.create_aggregate(_EXACT_SUM, 1, _ExactSum)
        connection.connection.create_function(_STEPS_PASSED, 1, _steps_passed, deterministic=True)
        connection.connection.create_function(_FLOAT_AS_JSON, 1, _float_as_json, deterministic=True)
        connection.connection.create_function(_DISTINCT_IN_LISTS, 1, _distinct_in_lists, deterministic=True)


connection_created.connect(_add_functions, dispatch_uid="experiments.results.expressions")
