"""Testers: users who see a variant that is forced for them. They never count, nor does what they saw before.

Who assigns and who records exposures leaves them out; here those go that were recorded earlier, or at that very moment
by somebody who had not heard of it yet.
"""

from __future__ import annotations

from datetime import datetime

from django.db import transaction

from events.removal.batches import several
from experiments.aggregates.refresh import hold
from experiments.aggregates.update import Keeper
from experiments.exposures.recording import take_turn
from experiments.models import Experiment, Exposure, Status, UserTotal


def leave_out_testers(experiment: Experiment) -> int:
    """Delete the exposures of testers in the caller's transaction, with totals and sums; return how many there were.

    What is frozen stands still. Whoever holds the change log took it before: it comes before the turn.
    """
    if experiment.status == Status.DRAFT or not experiment.forced_variants:
        return 0
    take_turn(experiment.environment)
    [held] = hold([experiment.pk])
    if Experiment.objects.filter(pk=experiment.pk).exclude(frozen_at=None).exists():
        return 0
    theirs = Exposure.objects.filter(experiment=experiment, user_id__in=list(experiment.forced_variants))
    # In the order in which those who record lock them.
    exposed = list(theirs.order_by("user_id").select_for_update().values_list("user_id", flat=True))
    if not exposed:
        return 0
    theirs.filter(user_id__in=exposed).delete()
    totals = UserTotal.objects.filter(experiment=experiment, user_id__in=exposed)
    keeper = Keeper(held, experiment)
    for user_id in list(totals.order_by("user_id").values_list("user_id", flat=True)):
        keeper.remove(user_id)
    held.save()  # what sees the database as it was before must not compute totals
    return len(exposed)


def leave_out_late_testers(experiment: Experiment) -> int:
    """Do so in a transaction of its own where somebody assigned a tester meanwhile; return how many there were."""
    if experiment.frozen_at is not None or not experiment.forced_variants:
        return 0
    if not Exposure.objects.filter(experiment=experiment, user_id__in=list(experiment.forced_variants)).exists():
        return 0
    with transaction.atomic():
        return leave_out_testers(experiment)


def leave_out_all_testers(now: datetime) -> str:
    """Do so wherever nothing is frozen: who became a tester while somebody assigned them is found here."""
    open_ones = Experiment.objects.started().filter(frozen_at=None)
    forcing = open_ones.exclude(forced_variants={}).select_related("environment")
    number = sum(leave_out_late_testers(each) for each in forcing.order_by("pk"))
    return f"left out {several(number, 'exposure')} of testers"
