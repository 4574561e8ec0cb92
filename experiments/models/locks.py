"""The locks on rows of this app. `config.database.locks` says in which order a transaction takes them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from django.db.models import Q

from config.database.locks import Rank, Strength, lock_rows, share_rows
from experiments.models.aggregates import AggregateState
from experiments.models.experiment import Experiment, ExperimentQuerySet, Status
from experiments.models.exposure import Exposure

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


def lock_aggregates(experiment_ids: Collection[UUID]) -> list[AggregateState]:
    """Return the states of these experiments, locked: no other transaction changes their totals and sums now.

    The experiments must have been started, because a draft may be deleted before its new state is committed. Only
    erasures lock several, and one erasure at a time in an environment. While missing states are created and the others
    locked, no holder of one of them waits for another.
    """
    wanted = AggregateState.objects.filter(pk__in=experiment_ids)
    missing = sorted({*experiment_ids}.difference(wanted.values_list("pk", flat=True)))
    AggregateState.objects.bulk_create([AggregateState(experiment_id=pk) for pk in missing], ignore_conflicts=True)
    # These are large, and not written by those who change totals.
    return lock_rows(Rank.AGGREGATES, wanted.defer("kept", "reading").order_by("pk"))


def lock_experiment(experiment: Experiment) -> Experiment:
    """Return the experiment as it is now, locked: it is not stopped, frozen or changed in this transaction."""
    [locked] = lock_rows(Rank.EXPERIMENTS, Experiment.objects.filter(pk=experiment.pk), no_key=True)
    return locked


def share_experiments(named: ExperimentQuerySet) -> None:
    """Keep drafts from being started and stopped experiments from being reopened in this transaction.

    A draft is locked for writing, which waits for a start that is under way; rows that refer to it can be inserted
    meanwhile, or their check would wait for this transaction, which may be waiting for theirs. Stopped experiments are
    shared, because old clients go on reporting for weeks.
    """
    lock_rows(Rank.EXPERIMENTS, named.filter(status=Status.DRAFT).order_by("pk"), no_key=True)
    share_rows(Rank.EXPERIMENTS, named.filter(status=Status.STOPPED).order_by("pk").values_list("pk"), "SHARE")


def share_exposures(keys: Collection[ExposureKey]) -> list[StoredExposure]:
    """Return those of the exposures that exist, kept from deletion: an erasure waits for this transaction."""
    return _hold_exposures(keys, "KEY SHARE")


def lock_exposures(keys: Collection[ExposureKey]) -> list[StoredExposure]:
    """Return those of the exposures that exist, locked: no other transaction changes or deletes them now.

    Rows are locked in the order of their keys, so that two transactions do not wait for each other in a circle.
    """
    return _hold_exposures(keys, "NO KEY UPDATE")


def _hold_exposures(keys: Collection[ExposureKey], strength: Strength) -> list[StoredExposure]:
    if not keys:
        return []
    condition = Q()
    for experiment_id, user_ids in users_by_experiment(keys).items():
        condition |= Q(experiment_id=experiment_id, user_id__in=user_ids)
    stored = Exposure.objects.filter(condition).annotate(has_attributes=Q(attributes__isnull=False))
    ordered = stored.order_by("experiment_id", "user_id").values_list(*DECISIVE, "has_attributes")
    rows = share_rows(Rank.EXPOSURES, ordered, strength)
    return [StoredExposure(*row) for row in rows]


def users_by_experiment(keys: Iterable[ExposureKey]) -> dict[UUID, list[str]]:
    """Return the user ids of the keys by experiment."""
    users: dict[UUID, list[str]] = {}
    for experiment_id, user_id in keys:
        users.setdefault(experiment_id, []).append(user_id)
    return users
