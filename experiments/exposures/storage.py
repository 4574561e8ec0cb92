"""Statements that insert and read many exposures at once. `recording` decides who is exposed to what."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
import orjson
from django.db import connection, transaction

from config.database.engines import is_distributed
from config.database.insertion import as_json, as_uuid, copy, find_rows, insert, insert_arrays, updating, were_all_new
from config.database.locks import Rank, share_rows
from experiments.models import Experiment, Exposure, Origin
from experiments.models.locks import DECISIVE, ExposureKey, users_by_experiment

_TABLE = Exposure._meta.db_table
_COLUMNS = (*DECISIVE, "attributes")
_CHANGING = ("variant", "exposed_at", "origin", "is_in_several_variants", "in_several_since", "phase", "arrival")
_OF_USERS = (*(column for column in DECISIVE[1:] if column != "origin"), "attributes")
_KEY = ("experiment_id", "user_id")
_IGNORING = "ON CONFLICT (experiment_id, user_id) DO NOTHING"
_REPLACED = {column: f"excluded.{column}" for column in _CHANGING}
_LONG_AGO, _NEVER = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
_FINAL = frozenset({Origin.ASSIGNED, Origin.TOLD})


class StoredVariant(NamedTuple):
    """The stored variant of a user. It is final once this service has answered it. Before, reports may change it."""

    variant: str
    is_final: bool


class ExposureRow(NamedTuple):
    """An exposure to store. A file has many, and making ORM objects takes longer than inserting them."""

    experiment_id: UUID
    user_id: str
    variant: str
    exposed_at: datetime
    origin: str
    is_in_several_variants: bool
    in_several_since: datetime | None
    phase: int
    attributes: dict[str, Any] | None


def insert_new(exposures: Sequence[ExposureRow]) -> int:
    """Insert the exposures of users who have none in an experiment yet, and return their number.

    Pass distinct exposures of one experiment and origin, sorted by user: otherwise, two transactions with common users
    may deadlock. The ORM can ignore conflicts, but does not say how many rows it wrote.

    On Citus, either all are inserted or none. A copy takes a fifth of the time of an insert, but cannot ignore
    conflicts.
    """
    if not exposures:
        return 0
    if is_distributed():
        rows = [[*map(as_json, exposure)] for exposure in exposures]
        return len(exposures) if were_all_new(partial(copy, Exposure, _COLUMNS, rows)) else 0
    if connection.vendor != "postgresql":
        return len(_insert(exposures, f"{_IGNORING} RETURNING 1"))
    _, user_ids, variants, exposed, _, are_several, since, phases, attributes = zip(*exposures, strict=True)
    timestamps: tuple[list[str], list[str | None]] = msgspec.to_builtins((exposed, since))
    attributes_as_json = [None if own is None else orjson.dumps(own).decode() for own in attributes]
    arrays = (
        user_ids,
        variants,
        timestamps[0],
        [*map(str, are_several)],
        timestamps[1],
        [*map(str, phases)],
        attributes_as_json,
    )
    same = {"experiment_id": exposures[0].experiment_id, "origin": exposures[0].origin}
    return insert_arrays(Exposure, same, dict(zip(_OF_USERS, arrays, strict=True)), _IGNORING)


def replace(exposures: Sequence[ExposureRow]) -> None:
    """Replace locked exposures. Without new attributes, the stored ones stay."""
    attributes = f"COALESCE(excluded.attributes, {_TABLE}.attributes)"
    _insert(exposures, updating(_KEY, {**_REPLACED, "attributes": attributes}))


def replace_with_attributes(exposures: Sequence[ExposureRow]) -> None:
    """Replace locked exposures. Without new attributes, they have none afterwards."""
    _insert(exposures, updating(_KEY, {**_REPLACED, "attributes": "excluded.attributes"}))


def insert_assigned(exposures: Sequence[ExposureRow]) -> dict[ExposureKey, str]:
    """Insert exposures as `insert_new` does, and return the variant of each user, which is final then.

    Exposures after a stop, or of a draft whose start was undone, are left out, and so are their users. A stop or an
    undo that is under way is waited for.
    """
    if is_distributed():
        with transaction.atomic(savepoint=False):
            return _assign(_counted(exposures))
    return _assign(exposures, only=_ONLY_COUNTED[connection.vendor])


def _assign(exposures: Sequence[ExposureRow], *, only: str = "") -> dict[ExposureKey, str]:
    # Citus sends each WHEN of a CASE that begins with a value to its workers without that value.
    origin = (
        f"CASE WHEN {_TABLE}.origin = '{Origin.REPORTED}' THEN excluded.origin "
        f"WHEN {_TABLE}.origin = '{Origin.IMPORTED}' THEN '{Origin.TOLD}' ELSE {_TABLE}.origin END"
    )
    changes = {
        "origin": origin,
        "arrival": "excluded.arrival",
        "attributes": f"COALESCE({_TABLE}.attributes, excluded.attributes)",
    }
    written = _insert(exposures, updating(_KEY, changes, (*_KEY, "variant")), only=only)
    return {(as_uuid(experiment_id), user_id): variant for experiment_id, user_id, variant in written}


def read_variants(users: Sequence[ExposureKey]) -> dict[ExposureKey, StoredVariant]:
    """Return the stored variants of the users who have one."""
    of_experiment = {_from_uuid(pk): user_ids for pk, user_ids in users_by_experiment(users).items()}
    stored = find_rows(Exposure, ("experiment_id", "user_id"), of_experiment, ("variant", "origin"))
    return {
        (as_uuid(experiment_id), user_id): StoredVariant(variant, origin in _FINAL)
        for experiment_id, user_id, variant, origin in stored
    }


def _counted(exposures: Sequence[ExposureRow]) -> list[ExposureRow]:
    """Return the exposures that count, and keep their experiments from being stopped.

    On Citus, workers do not have the table of experiments, so no statement there could leave the others out.
    """
    named = Experiment.objects.filter(pk__in={exposure.experiment_id for exposure in exposures}).order_by("pk")
    columns = named.values_list("pk", "started_at", "stopped_at", "frozen_at")
    until = {
        pk: stopped_at or _NEVER
        for pk, started_at, stopped_at, frozen_at in share_rows(Rank.EXPERIMENTS, columns, "KEY SHARE")
        if started_at and not frozen_at
    }
    return [exposure for exposure in exposures if exposure.exposed_at <= until.get(exposure.experiment_id, _LONG_AGO)]


_COUNTED = "e.started_at IS NOT NULL AND (e.stopped_at IS NULL OR (e.frozen_at IS NULL AND {moment} <= e.stopped_at))"
_ONLY_COUNTED = {
    # The lock waits for a stop or an undo, which then decides: PostgreSQL compares with the row that it left.
    "postgresql": f"JOIN {Experiment._meta.db_table} e ON e.id = (new_row ->> 0)::uuid AND "
    + _COUNTED.format(moment=f"(new_row ->> {_COLUMNS.index('exposed_at')})::timestamptz")
    + " FOR KEY SHARE OF e",
    "sqlite": f"JOIN {Experiment._meta.db_table} e ON e.id = new_row.experiment_id AND "
    + _COUNTED.format(moment="new_row.exposed_at"),
}
"""The part of an insert that leaves out exposures after a stop, or of a start that was undone."""


def _insert(rows: Sequence[ExposureRow], conflict: str, *, only: str = "") -> list[Any]:
    return insert(Exposure, _COLUMNS, [tuple(row) for row in rows], conflict, only=only)  # no JSON of named tuples


def _from_uuid(uuid: UUID) -> UUID | str:
    return uuid if connection.features.has_native_uuid_field else uuid.hex
