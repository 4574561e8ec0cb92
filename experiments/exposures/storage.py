"""Exposures on their way into the table, many in one statement. Who is exposed to what is decided in `exposures`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection

from config.database.insertion import as_uuid, insert
from experiments.models import Exposure, Origin
from experiments.models.locks import DECISIVE, ExposureKey, users_by_experiment

_TABLE = Exposure._meta.db_table
_COLUMNS = (*DECISIVE, "attributes")
_STANDING = frozenset({Origin.ASSIGNED, Origin.TOLD})


class Stored(NamedTuple):
    """The variant that a user has, and whether it stands: what this service has not told yet may turn out otherwise."""

    variant: str
    stands: bool


def insert_new(exposures: Sequence[Exposure]) -> set[ExposureKey]:
    """Insert those whose users have none yet in the experiment, in the caller's transaction, and return whose they are.

    None may stand there twice. Give them sorted by experiment and user, here as below, so that two calls with common
    users wait for each other and never in a circle. The ORM can ignore conflicts, but not say which rows it wrote.
    """
    written = _insert(exposures, "ON CONFLICT (experiment_id, user_id) DO NOTHING RETURNING experiment_id, user_id")
    return {(as_uuid(experiment_id), user_id) for experiment_id, user_id in written}


def insert_assigned(exposures: Sequence[Exposure]) -> dict[ExposureKey, str]:
    """Insert them as above, and return the variant of each user: what was there stays, and stands from now on."""
    written = _insert(
        exposures,
        "ON CONFLICT (experiment_id, user_id) DO UPDATE SET "
        f"origin = CASE {_TABLE}.origin WHEN '{Origin.REPORTED}' THEN excluded.origin "
        f"WHEN '{Origin.IMPORTED}' THEN '{Origin.TOLD}' ELSE {_TABLE}.origin END, "
        "arrival = excluded.arrival, "
        f"attributes = COALESCE({_TABLE}.attributes, excluded.attributes) "
        "RETURNING experiment_id, user_id, variant",
    )
    return {(as_uuid(experiment_id), user_id): variant for experiment_id, user_id, variant in written}


def stored_variants(users: Sequence[ExposureKey]) -> dict[ExposureKey, Stored]:
    """The variants of those of the users who have one."""
    of_experiment = users_by_experiment(users)
    conditions = " OR ".join(
        f"experiment_id = %s AND user_id IN ({', '.join(['%s'] * len(each))})" for each in of_experiment.values()
    )
    # Half of the cost of asking for one user through the ORM is making the statement.
    statement = f"SELECT experiment_id, user_id, variant, origin FROM {_TABLE} WHERE {conditions}"  # noqa: S608 (no data)
    keys = [value for which, each in of_experiment.items() for value in (_from_uuid(which), *each)]
    with connection.cursor() as cursor:
        cursor.execute(statement, keys)
        return {
            (as_uuid(experiment_id), user_id): Stored(variant, origin in _STANDING)
            for experiment_id, user_id, variant, origin in cursor.fetchall()
        }


def _insert(exposures: Sequence[Exposure], conflict: str) -> list[Any]:
    rows = [tuple(getattr(each, column) for column in _COLUMNS) for each in exposures]
    return insert(Exposure, _COLUMNS, rows, conflict)


def _from_uuid(uuid: UUID) -> UUID | str:
    return uuid if connection.features.has_native_uuid_field else uuid.hex
