"""The locks on rows of this app. `config.database.locks` defines the order in which a transaction takes them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from enum import IntEnum
from typing import NamedTuple
from uuid import UUID

from django.db import connection
from django.db.models import Q, QuerySet

from config.database.engines import is_distributed
from config.database.locks import Rank, Strength, check_order, lock_each, lock_hashes, lock_rows, share_rows
from experiments.models.experiment import Experiment, ExperimentQuerySet, Status
from experiments.models.exposure import Exposure
from experiments.models.results import ResultState

ExposureKey = tuple[UUID, str]
"""The primary key of an exposure: experiment and user."""

_SEVERAL = ("is_in_several_variants", "in_several_since")
DECISIVE = ("experiment_id", "user_id", "variant", "exposed_at", "origin", *_SEVERAL, "phase")
"""The columns that decide how an exposure changes: all but the attributes."""


class StoredExposure(NamedTuple):
    """A stored exposure without its attributes, which may be large."""

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
    """An exposure that a further report would not change: it has this variant, and is no later than this time."""

    variant: str
    exposed_by: str
    """A timestamp in ISO 8601."""


UNEXPECTED = Expected("", "infinity")
"""Every exposure differs from this one."""


def lock_results(experiment_ids: Collection[UUID]) -> list[ResultState]:
    """Lock and return the result states of these experiments. No other transaction changes their values or sums.

    The experiments must have started: a draft could be deleted before its new state is committed. Only an erasure locks
    several states, and an environment has one erasure at a time. So whoever holds one of these states while missing
    ones are created waits for nobody.
    """
    # What is deferred is large, and not written by those who change sums.
    wanted = ResultState.objects.filter(experiment__in=experiment_ids).defer("archive", "reading").order_by("pk")
    states = lock_rows(Rank.RESULTS, wanted)
    if missing := sorted({*experiment_ids}.difference(state.experiment_id for state in states)):
        ResultState.objects.bulk_create([ResultState(experiment_id=pk) for pk in missing], ignore_conflicts=True)
        states = lock_rows(Rank.RESULTS, wanted)
    return states


def lock_experiment(experiment: Experiment) -> Experiment:
    """Lock and return the experiment, so that nobody stops, freezes or changes it in this transaction."""
    [locked] = lock_rows(Rank.EXPERIMENTS, Experiment.objects.filter(pk=experiment.pk), no_key=True)
    return locked


def share_experiments(named: ExperimentQuerySet, young: datetime) -> None:
    """Keep these drafts from starting and these stopped experiments from reopening during this transaction.

    Starts since `young` cannot be undone either. An undo leaves a draft, so drafts are locked after running
    experiments.

    Drafts are locked for writing, which waits for a start that is under way. Rows that refer to a draft can still be
    inserted. If their foreign key check had to wait for this transaction, the two could wait for each other. Stopped
    experiments are only shared, because old clients go on reporting for weeks.
    """
    started = named.filter(status=Status.RUNNING, started_at__gte=young)
    share_rows(Rank.EXPERIMENTS, started.order_by("pk").values_list("pk"), "KEY SHARE")
    lock_rows(Rank.EXPERIMENTS, named.filter(status=Status.DRAFT).order_by("pk"), no_key=True)
    share_rows(Rank.EXPERIMENTS, named.filter(status=Status.STOPPED).order_by("pk").values_list("pk"), "SHARE")


class LockedExposures(NamedTuple):
    """The exposures that were found and locked, and the users who have none."""

    found: list[StoredExposure]
    missing: list[str]


def share_exposures(experiment_id: UUID, expected: Mapping[str, Expected]) -> LockedExposures:
    """Keep the exposures of these users from being deleted: an erasure waits for this transaction.

    Exposures that are as expected are locked, but not returned.
    """
    return _hold_exposures(experiment_id, expected, "KEY SHARE")


def lock_exposures(experiment_id: UUID, user_ids: Collection[str]) -> LockedExposures:
    """Lock and return the exposures of these users, so that no other transaction changes or deletes them.

    Pass sorted users. Rows are locked in this order, which avoids deadlocks.
    """
    return _hold_exposures(experiment_id, dict.fromkeys(user_ids, UNEXPECTED), "NO KEY UPDATE")


def lock_for_deletion(theirs: QuerySet[Exposure], user_ids: Collection[str]) -> list[Exposure]:
    """Lock and return exposures of these users, after waiting for transactions that hold or change them."""
    if is_distributed():
        check_order(Rank.EXPOSURES)
        lock_hashes(_LockKind.PRESENT, user_ids)
        lock_hashes(_LockKind.CHANGED, user_ids)
        return list(theirs)
    return lock_rows(Rank.EXPOSURES, theirs)


class _LockKind(IntEnum):
    """What is locked of a user on Citus, where a query on several servers cannot lock rows.

    The coordinator keeps these locks until its workers have committed.
    """

    PRESENT = 1
    """Reports share it. A deletion holds it alone."""
    CHANGED = 2
    """Transactions that change exposures hold it."""


def _hold_distributed(experiment_id: UUID, expected: Mapping[str, Expected], strength: Strength) -> LockedExposures:
    check_order(Rank.EXPOSURES)
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
    users: dict[UUID, list[str]] = {}
    for experiment_id, user_id in keys:
        users.setdefault(experiment_id, []).append(user_id)
    return users
