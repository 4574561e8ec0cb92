"""The locks on rows of this app. `config.database.locks` says in which order a transaction takes them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from enum import IntEnum
from typing import NamedTuple
from uuid import UUID

from django.db import connection
from django.db.models import Q, QuerySet

from config.database.engines import is_distributed
from config.database.locks import Rank, Strength, lock_each, lock_hashes, lock_rows, share_rows, take
from experiments.models.experiment import Experiment, ExperimentQuerySet, Status
from experiments.models.exposure import Exposure
from experiments.models.results import ResultState

ExposureKey = tuple[UUID, str]
"""The primary key of an exposure: experiment and user."""

_SEVERAL = ("is_in_several_variants", "in_several_since")
DECISIVE = ("experiment_id", "user_id", "variant", "exposed_at", "origin", *_SEVERAL, "phase")
"""The columns of an exposure by which its changes are decided: all but the attributes."""


class StoredExposure(NamedTuple):
    """An exposure as it is stored, without its attributes, which may be large."""

    experiment_id: UUID
    user_id: str
    variant: str
    exposed_at: datetime
    origin: str
    is_in_several_variants: bool
    in_several_since: datetime | None
    phase: int
    has_attributes: bool


class Expected(NamedTuple):
    """An exposure with this variant that is no later than a moment. Another report of both changes nothing."""

    variant: str
    exposed_by: str
    """A timestamp in ISO 8601."""


UNEXPECTED = Expected("", "infinity")
"""No exposure has this variant."""


def lock_results(experiment_ids: Collection[UUID]) -> list[ResultState]:
    """Return the states of these experiments, locked: no other transaction changes their totals and sums now.

    The experiments must have been started, because a draft may be deleted before its new state is committed. Only
    erasures lock several, and one erasure at a time in an environment. While missing states are created and the others
    locked, no holder of one of them waits for another.
    """
    wanted = ResultState.objects.filter(pk__in=experiment_ids)
    missing = sorted({*experiment_ids}.difference(wanted.values_list("pk", flat=True)))
    ResultState.objects.bulk_create([ResultState(experiment_id=pk) for pk in missing], ignore_conflicts=True)
    # These are large, and not written by those who change totals.
    return lock_rows(Rank.RESULTS, wanted.defer("archive", "reading").order_by("pk"))


def lock_experiment(experiment: Experiment) -> Experiment:
    """Return the experiment as it is now, locked: it is not stopped, frozen or changed in this transaction."""
    [locked] = lock_rows(Rank.EXPERIMENTS, Experiment.objects.filter(pk=experiment.pk), no_key=True)
    return locked


def share_experiments(named: ExperimentQuerySet, young: datetime) -> None:
    """Keep drafts from being started and stopped experiments from being reopened in this transaction.

    Nor is a start since the moment `young` undone. One that is being undone leaves a draft, so drafts come second. A
    draft is locked for writing, which waits for a start that is under way; rows that refer to it can be inserted
    meanwhile, or their check would wait for this transaction, which may be waiting for theirs. Stopped experiments are
    shared, because old clients go on reporting for weeks.
    """
    started = named.filter(status=Status.RUNNING, started_at__gte=young)
    share_rows(Rank.EXPERIMENTS, started.order_by("pk").values_list("pk"), "KEY SHARE")
    lock_rows(Rank.EXPERIMENTS, named.filter(status=Status.DRAFT).order_by("pk"), no_key=True)
    share_rows(Rank.EXPERIMENTS, named.filter(status=Status.STOPPED).order_by("pk").values_list("pk"), "SHARE")


class LockedExposures(NamedTuple):
    """The stored exposures of some users, and the users without one."""

    found: list[StoredExposure]
    missing: list[str]


def share_exposures(experiment_id: UUID, expected: Mapping[str, Expected]) -> LockedExposures:
    """Keep those of the users' exposures that exist from deletion: an erasure waits for this transaction.

    Exposures that are as expected are held, but not returned.
    """
    return _hold_exposures(experiment_id, expected, "KEY SHARE")


def lock_exposures(experiment_id: UUID, user_ids: Collection[str]) -> LockedExposures:
    """Return those of the users' exposures that exist, locked: no other transaction changes or deletes them now.

    Pass sorted users. Rows are locked in their order, so that two transactions do not wait for each other in a circle.
    """
    return _hold_exposures(experiment_id, dict.fromkeys(user_ids, UNEXPECTED), "NO KEY UPDATE")


def lock_for_deletion(theirs: QuerySet[Exposure], user_ids: Collection[str]) -> list[Exposure]:
    """Return exposures of these users, locked: transactions that hold or change one of them end before."""
    if is_distributed():
        take(Rank.EXPOSURES)
        lock_hashes(_LockKind.PRESENT, user_ids)
        lock_hashes(_LockKind.CHANGED, user_ids)
        return list(theirs)
    return lock_rows(Rank.EXPOSURES, theirs)


class _LockKind(IntEnum):
    """What is locked of a user on Citus, which cannot lock rows of a query on several servers.

    The coordinator keeps these locks until its workers have committed.
    """

    PRESENT = 1
    """Shared by those who report exposures again, held by those who delete them."""
    CHANGED = 2
    """LockedExposures by those who change exposures."""


def _hold_distributed(experiment_id: UUID, expected: Mapping[str, Expected], strength: Strength) -> LockedExposures:
    take(Rank.EXPOSURES)
    lock_hashes(_LockKind.PRESENT, expected.keys(), are_shared=True)
    if strength == "NO KEY UPDATE":
        lock_hashes(_LockKind.CHANGED, expected.keys())
    # By another statement, which sees what others have committed while this transaction waited.
    of_users = Exposure.objects.filter(experiment_id=experiment_id, user_id__in=expected)
    rows = of_users.annotate(has_attributes=Q(attributes__isnull=False)).values_list(*DECISIVE[1:], "has_attributes")
    found = [StoredExposure(experiment_id, *row) for row in rows]
    missing = expected.keys() - {exposure.user_id for exposure in found}
    return LockedExposures(
        [exposure for exposure in found if not _is_as(expected[exposure.user_id], exposure)], [*missing]
    )


def _is_as(expected: Expected, exposure: StoredExposure) -> bool:
    return expected is not UNEXPECTED and (
        exposure.variant == expected.variant and exposure.exposed_at <= datetime.fromisoformat(expected.exposed_by)
    )


def _hold_exposures(experiment_id: UUID, expected: Mapping[str, Expected], strength: Strength) -> LockedExposures:
    if is_distributed():
        return _hold_distributed(experiment_id, expected, strength)
    if connection.vendor == "postgresql":
        rows = lock_each(
            Rank.EXPOSURES,
            Exposure,
            ("experiment_id", experiment_id),
            "user_id",
            DECISIVE[2:],
            expected,
            strength,
            same="variant",
            no_later="exposed_at",
            flag="attributes",
        )
    else:
        of_users = Exposure.objects.filter(experiment_id=experiment_id, user_id__in=expected)
        columns = of_users.annotate(has_attributes=Q(attributes__isnull=False)).order_by("user_id")
        rows = [*share_rows(Rank.EXPOSURES, columns.values_list(*DECISIVE[1:], "has_attributes"), strength)]
        rows += [(user_id, None) for user_id in expected.keys() - {user_id for user_id, *_ in rows}]
    return LockedExposures(
        [StoredExposure(experiment_id, *row) for row in rows if row[1] is not None],
        [user_id for user_id, variant, *_ in rows if variant is None],
    )


def users_by_experiment(keys: Iterable[ExposureKey]) -> dict[UUID, list[str]]:
    """Return the user ids of the keys by experiment."""
    users: dict[UUID, list[str]] = {}
    for experiment_id, user_id in keys:
        users.setdefault(experiment_id, []).append(user_id)
    return users
