"""Testers: users who see a variant that is forced for them. They never count, nor does what they saw before.

Who assigns and who records exposures leaves them out; here those go that were recorded earlier, or at that very moment
by somebody who had not heard of it yet.
"""

from __future__ import annotations

from datetime import datetime

from django.db import transaction

from config.database.locks import Rank, lock_environment, lock_rows
from events.removal.batches import several
from experiments.aggregates.update import AggregateUpdater
from experiments.models import Experiment, Exposure, Status, UserTotal
from experiments.models.locks import lock_aggregates


def remove_forced_exposures(experiment: Experiment) -> int:
    """Delete the exposures of testers in the caller's transaction, with totals and sums; return how many there were.

    What is frozen stands still. Whoever holds the change log took it before: it comes before the turn.
    """
    if experiment.status == Status.DRAFT or not experiment.forced_variants:
        return 0
    lock_environment(experiment.environment)
    [held] = lock_aggregates([experiment.pk])
    if Experiment.objects.filter(pk=experiment.pk).exclude(frozen_at=None).exists():
        return 0
    theirs = Exposure.objects.filter(experiment=experiment, user_id__in=list(experiment.forced_variants))
    # In the order in which those who record lock them.
    exposures = lock_rows(Rank.EXPOSURES, theirs.order_by("user_id").only("experiment_id", "user_id"))
    exposed = [exposure.user_id for exposure in exposures]
    if not exposed:
        return 0
    theirs.filter(user_id__in=exposed).delete()
    totals = UserTotal.objects.filter(experiment=experiment, user_id__in=exposed)
    updater = AggregateUpdater(held, experiment)
    for user_id in list(totals.order_by("user_id").values_list("user_id", flat=True)):
        updater.remove(user_id)
    held.save()  # what sees the database as it was before must not compute totals
    return len(exposed)


def remove_late_forced_exposures(experiment: Experiment) -> int:
    """Do so in a transaction of its own where somebody assigned a tester meanwhile; return how many there were."""
    if experiment.frozen_at is not None or not experiment.forced_variants:
        return 0
    if not Exposure.objects.filter(experiment=experiment, user_id__in=list(experiment.forced_variants)).exists():
        return 0
    with transaction.atomic():
        return remove_forced_exposures(experiment)


def remove_all_forced_exposures(now: datetime) -> str:
    """Do so wherever nothing is frozen: who became a tester while somebody assigned them is found here."""
    open_ones = Experiment.objects.started().filter(frozen_at=None)
    forcing = open_ones.exclude(forced_variants={}).select_related("environment")
    number = sum(remove_late_forced_exposures(each) for each in forcing.order_by("pk"))
    return f"left out {several(number, 'exposure')} of testers"
