"""Conditions on events that the ORM cannot say, or not for every database."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import orjson
from django.db.models import BooleanField, F, Func

_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?", re.ASCII)
_LARGEST_INTEGER = 2**63 - 1
"""The largest in SQLite, which reads larger ones as the nearest float."""


class NamesExperiment(Func):
    """Whether an event has an `experimentId`.

    SQLite uses the partial indexes only for statements that repeat their condition, without a parameter.
    """

    output_field = BooleanField()
    template = "NOT (%(expressions)s = '')"

    def __init__(self) -> None:
        super().__init__(F("experiment"))


class HasKey(Func):
    """Whether an event has one of these ids and users. Only for PostgreSQL.

    Users are named on their own, too, so that Citus asks only their servers. Thousands of pairs as conditions of their
    own would take seconds to plan.
    """

    output_field = BooleanField()
    template = "%(user)s = ANY (%%s) AND (%(expressions)s) IN (SELECT * FROM unnest(%%s::uuid[], %%s::text[]))"

    def __init__(self, keys: Sequence[tuple[UUID, str]]) -> None:
        super().__init__(F("id"), F("user_id"))
        self.keys = keys

    def as_sql(self, compiler: Any, connection: Any, *_: Any, **__: Any) -> Any:
        user, _parameters = compiler.compile(self.source_expressions[1])
        condition, parameters = super().as_sql(compiler, connection, user=user)
        ids, users = map(list, zip(*self.keys, strict=True))
        return condition, [*parameters, sorted({*users}), ids, users]


class PropertyIs(Func):
    """Whether the property of this exact name is a text, or the number, true, false or null that the text spells.

    Values are compared as JSON: `1` equals `1.0`, but not `true` or `"1"`. Objects and arrays never match.
    """

    output_field = BooleanField()

    def __init__(self, name: str, sought: str) -> None:
        super().__init__(F("properties"))
        self.name = name
        self.sought = sought

    def as_postgresql(self, compiler: Any, connection: Any, **_: Any) -> Any:
        values = [orjson.dumps(value).decode() for value in (self.sought, *_spelled(self.sought))]
        template = f"(%(expressions)s -> %%s::text) IN ({', '.join(['%%s::jsonb'] * len(values))})"
        condition, parameters = super().as_sql(compiler, connection, template=template)
        return condition, [*parameters, self.name, *values]

    def as_sqlite(self, compiler: Any, connection: Any, **_: Any) -> Any:
        # Versions of SQLite read paths such as $."name" differently if the name has quotes or escapes.
        matches, values = ["type = 'text' AND value = %s"], list[object]([self.sought])
        for value in _spelled(self.sought):
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                matches.append("type IN ('integer', 'real') AND value = %s")
                values.append(value if abs(value) <= _LARGEST_INTEGER else float(value))
            else:
                matches.append("type = %s")
                values.append(orjson.dumps(value).decode())
        template = "EXISTS (SELECT 1 FROM json_each(%(expressions)s) WHERE key = %%s AND (%(matches)s))"
        condition, parameters = super().as_sql(compiler, connection, template=template, matches=" OR ".join(matches))
        return condition, [*parameters, self.name, *values]


def _spelled(sought: str) -> list[float | bool | None]:
    """Return the number, boolean or null that a text spells in JSON, or nothing."""
    if sought in ("true", "false", "null"):
        return [orjson.loads(sought)]
    if not _NUMBER.fullmatch(sought):
        return []
    try:
        number = orjson.loads(sought)
    except orjson.JSONDecodeError:  # too large for a float
        return []
    return [number] if math.isfinite(number) else []
