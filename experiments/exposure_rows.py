"""Exposures on their way into the table, many in one statement. Who is exposed to what is decided in `exposures`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.db import connection

from experiments.models import Exposure, Origin

Whose = tuple[UUID, str]
"""The key of an exposure: experiment and user."""

_MOST_A_STATEMENT = 1000

_COLUMNS = ("experiment_id", "user_id", "variant", "exposed_at", "origin", "is_in_several_variants")
_ROW = f"({', '.join(['%s'] * len(_COLUMNS))})"
_INSERT = f"INSERT INTO {Exposure._meta.db_table} ({', '.join(_COLUMNS)}) VALUES"


def insert_new(exposures: Sequence[Exposure]) -> set[Whose]:
    """Insert those whose users have none yet in the experiment, in the caller's transaction, and return whose they are.

    None may stand there twice. Give them sorted by experiment and user, here as below, so that two calls with common
    users wait for each other and never in a circle. The ORM can ignore conflicts, but not say which rows it wrote.
    """
    written = _execute(exposures, "ON CONFLICT (experiment_id, user_id) DO NOTHING RETURNING experiment_id, user_id")
    return {(_as_uuid(experiment_id), user_id) for experiment_id, user_id in written}


def insert_assigned(exposures: Sequence[Exposure]) -> dict[Whose, str]:
    """Insert them as above, and return the variant of each user: what was there stays, but is assigned now."""
    written = _execute(
        exposures,
        "ON CONFLICT (experiment_id, user_id) DO UPDATE SET origin = excluded.origin "
        "RETURNING experiment_id, user_id, variant",
    )
    return {(_as_uuid(experiment_id), user_id): variant for experiment_id, user_id, variant in written}


def stored_assignment(experiment_id: UUID, user_id: str) -> str | None:
    """The variant that this service has assigned to a user, if there is one."""
    mine = Exposure.objects.filter(experiment_id=experiment_id, user_id=user_id, origin=Origin.ASSIGNED)
    return mine.order_by().values_list("variant", flat=True).first()


def _execute(exposures: Sequence[Exposure], conflict: str) -> list[tuple[Any, ...]]:
    returned: list[tuple[Any, ...]] = []
    with connection.cursor() as cursor:
        for at in range(0, len(exposures), _MOST_A_STATEMENT):
            rows = _rows(exposures[at : at + _MOST_A_STATEMENT])
            statement = f"{_INSERT} {', '.join([_ROW] * len(rows))} {conflict}"
            cursor.execute(statement, [value for row in rows for value in row])
            returned += cursor.fetchall()
    return returned


def _rows(exposures: Sequence[Exposure]) -> list[tuple[Any, ...]]:
    to_moment = connection.ops.adapt_datetimefield_value
    has_uuids = connection.features.has_native_uuid_field
    return [
        (
            each.experiment_id if has_uuids else each.experiment_id.hex,
            each.user_id,
            each.variant,
            to_moment(each.exposed_at),
            each.origin,
            each.is_in_several_variants,
        )
        for each in exposures
    ]


def _as_uuid(found: UUID | str) -> UUID:
    return found if isinstance(found, UUID) else UUID(found)
