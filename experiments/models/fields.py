"""Column types for computed values: an array of the numbers of one user, and exact sums over users.

Sums are exact so that the values of a user can be subtracted again without leaving a rounding error.
"""

from __future__ import annotations

from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from typing import Any

import orjson
from django.db import models
from django.db.backends.signals import connection_created

EXACT = Context(prec=2000, Emax=MAX_EMAX, Emin=MIN_EMIN)
"""The context for sums of floats and of their squares. It is precise enough that no digit is lost."""


class FiguresField(models.Field):  # type: ignore[type-arg]  # not generic at run time
    """A list of floats: an array on PostgreSQL, where NULL stands for 0, and JSON on SQLite.

    The model defines their order.
    """

    def db_type(self, connection: Any) -> str:
        return "double precision[]" if connection.vendor == "postgresql" else "text"

    def get_db_prep_value(self, value: Any, connection: Any, prepared: bool = False) -> Any:
        return value if connection.vendor == "postgresql" else orjson.dumps(value).decode()

    def from_db_value(self, value: Any, *_: Any) -> Any:
        return orjson.loads(value) if isinstance(value, str) else [figure or 0.0 for figure in value]


class ExactField(models.Field):  # type: ignore[type-arg]  # not generic at run time
    """A decimal number of any length: a numeric on PostgreSQL, text on SQLite."""

    def db_type(self, connection: Any) -> str:
        return "numeric" if connection.vendor == "postgresql" else "text"

    def get_db_prep_value(self, value: Any, connection: Any, prepared: bool = False) -> Any:
        return value if connection.vendor == "postgresql" else str(value)

    def from_db_value(self, value: Any, *_: Any) -> Decimal:
        return Decimal(value)


class ExactSum(models.Aggregate):
    """The sum of an ExactField."""

    function = "SUM"
    output_field = ExactField()

    def as_sqlite(self, compiler: Any, connection: Any, **options: Any) -> Any:
        return super().as_sql(compiler, connection, function=_EXACT_SUM, **options)


_EXACT_SUM = "exact_sum"


class _ExactSum:
    """An exact SUM for SQLite, whose own SUM supports only floats."""

    def __init__(self) -> None:
        self.sum = Decimal(0)

    def step(self, value: float | str | None) -> None:
        if value is not None:
            self.sum = EXACT.add(self.sum, _as_decimal(value))

    def finalize(self) -> str:
        return str(self.sum)


class _ExactDifference(_ExactSum):
    """The exact sum of the differences of two values, neither of which or both are NULL."""

    def step(self, value: float | str | None, subtracted: float | str | None = None) -> None:
        if value is not None and subtracted is not None:
            self.sum = EXACT.add(self.sum, EXACT.subtract(_as_decimal(value), _as_decimal(subtracted)))


def _add_exactly(value: str, other: str) -> str:
    return str(EXACT.add(Decimal(value), Decimal(other)))


def _as_decimal(value: float | str) -> Decimal:
    return Decimal(value if isinstance(value, str) else repr(value))


def _add_functions(*, connection: Any, **_: Any) -> None:
    if connection.vendor == "sqlite":
        connection.connection.create_aggregate(_EXACT_SUM, 1, _ExactSum)
        connection.connection.create_aggregate("exact_difference", 2, _ExactDifference)
        connection.connection.create_function("exact_added", 2, _add_exactly, deterministic=True)


connection_created.connect(_add_functions, dispatch_uid="experiments.models.fields")
