"""The locks on rows of this app. `config.database.locks` says in which order a transaction takes them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from uuid import UUID

from django.db.models import Q

from config.database.locks import Rank, lock_rows, share_rows
from experiments.models.aggregates import AggregateState
from experiments.models.experiment import Experiment, ExperimentQuerySet, Status
from experiments.models.exposure import Exposure

ExposureKey = tuple[UUID, str]
"""The primary key of an exposure: experiment and user."""

DECISIVE = ("experiment_id", "user_id", "variant", "exposed_at", "origin", "is_in_several_variants", "phase")
"""The columns of an exposure by which its changes are decided: all but the attributes."""


def lock_aggregates(experiment_ids: Collection[UUID]) -> list[AggregateState]:
    """Return the states of these experiments, locked: no other transaction changes their totals and sums now.

    The experiments must have been started, because a draft may be deleted before its new state is committed. Only
    erasures lock several, and one erasure at a time in an environment. While missing states are created and the others
    locked, no holder of one of them waits for another.
    """
    wanted = AggregateState.objects.filter(pk__in=experiment_ids)
    missing = sorted({*experiment_ids}.difference(wanted.values_list("pk", flat=True)))
    AggregateState.objects.bulk_create([AggregateState(experiment_id=pk) for pk in missing], ignore_conflicts=True)
    # `kept` is large, and not written by those who change totals.
    return lock_rows(Rank.AGGREGATES, wanted.defer("kept").order_by("pk"))


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


def share_exposures(keys: Collection[ExposureKey]) -> list[Exposure]:
    """Return those of the exposures that exist, kept from deletion: an erasure waits for this transaction.

    They come without their attributes.
    """
    if not keys:
        return []
    condition = Q()
    for experiment_id, user_ids in users_by_experiment(keys).items():
        condition |= Q(experiment_id=experiment_id, user_id__in=user_ids)
    stored = Exposure.objects.filter(condition).order_by("experiment_id", "user_id").values_list(*DECISIVE)
    rows = share_rows(Rank.EXPOSURES, stored, "KEY SHARE")
    return [Exposure(**dict(zip(DECISIVE, row, strict=True))) for row in rows]


def users_by_experiment(keys: Iterable[ExposureKey]) -> dict[UUID, list[str]]:
    """Return the user ids of the keys by experiment."""
    users: dict[UUID, list[str]] = {}
    for experiment_id, user_id in keys:
        users.setdefault(experiment_id, []).append(user_id)
    return users
