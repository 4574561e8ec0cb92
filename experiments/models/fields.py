"""The type of columns with exact sums over users.

With exact sums, the values of a user can be subtracted again without a rounding error.
"""

from __future__ import annotations

from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from typing import Any

from django.db import models

EXACT = Context(prec=2000, Emax=MAX_EMAX, Emin=MIN_EMIN)
"""The decimal context for sums of floats and of their squares. No digit is lost."""


class ExactField(models.Field):  # type: ignore[type-arg]  # not generic at run time
    """A decimal number of any length: a numeric on PostgreSQL, text on SQLite."""

    def db_type(self, connection: Any) -> str:
        return "numeric" if connection.vendor == "postgresql" else "text"

    def get_db_prep_value(self, value: Any, connection: Any, prepared: bool = False) -> Any:
        return value if connection.vendor == "postgresql" else str(value)

    def from_db_value(self, value: Any, *_: Any) -> Decimal | None:
        return None if value is None else Decimal(value)
