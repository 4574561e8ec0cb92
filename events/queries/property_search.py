"""Finding events by a property. The searched value is a text; the stored one may be a number, a
boolean or null.
"""

from __future__ import annotations

import math
import re
from typing import Any

import orjson
from django.db.models import BooleanField, F, Func

_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?", re.ASCII)
_LARGEST_INTEGER = 2**63 - 1
"""The largest in SQLite, which reads larger ones as the nearest float."""


class PropertyIs(Func):
    """Whether the property of this exact name is this text, or the number, true, false or null that
    it spells.

    Values are compared as JSON: `1` equals `1.0`, but not `true` or `"1"`. Objects and arrays never
    match.
    """

    output_field = BooleanField()

    def __init__(self, name: str, text: str) -> None:
        super().__init__(F("properties"))
        self.name = name
        self.text = text

    def as_postgresql(self, compiler: Any, connection: Any, **_: Any) -> Any:
        column, parameters = compiler.compile(self.source_expressions[0])
        values = [self.text, *_spelled(self.text)]
        documents = [orjson.dumps(value).decode() for value in values]
        choices = ", ".join(["%s::jsonb"] * len(documents))
        return f"({column} -> %s::text) IN ({choices})", [*parameters, self.name, *documents]

    def as_sqlite(self, compiler: Any, connection: Any, **_: Any) -> Any:
        # Versions of SQLite read paths such as $."name" differently if the name has quotes or
        # escapes.
        column, parameters = compiler.compile(self.source_expressions[0])
        condition, values = "type = 'text' AND value = %s", list[object]([self.text])
        for value in _spelled(self.text):
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                condition += " OR type IN ('integer', 'real') AND value = %s"
                values.append(value if abs(value) <= _LARGEST_INTEGER else float(value))
            else:
                condition += " OR type = %s"
                values.append(orjson.dumps(value).decode())
        matches = f"SELECT 1 FROM json_each({column}) WHERE key = %s AND ({condition})"  # noqa: S608 (no data)
        return f"EXISTS ({matches})", [*parameters, self.name, *values]


def _spelled(text: str) -> list[float | bool | None]:
    """Return the number, boolean or null that a text spells in JSON, or nothing."""
    if text in ("true", "false", "null"):
        return [orjson.loads(text)]
    if not _NUMBER.fullmatch(text):
        return []
    try:
        number = orjson.loads(text)
    except orjson.JSONDecodeError:  # too large for a float
        return []
    return [number] if math.isfinite(number) else []
