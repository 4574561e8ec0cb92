"""Removing the exposures of users whose variant is forced: they never count, earlier exposures included.

Assigning and recording leave these users out. This module removes exposures that were recorded earlier, or at the same
moment by a process that did not know of the forced variant yet.
"""

from __future__ import annotations

from datetime import datetime

from django.db import transaction

from config.database.locks import lock_environment
from config.database.planning import WITHOUT_JIT, planned
from events.removal import format_count
from experiments.models import Experiment, Exposure, Status
from experiments.models.locks import lock_for_deletion, lock_results
from experiments.results.fixed_reading import forget_open_reading
from experiments.results.update import Update


def remove_forced_exposures(experiment: Experiment) -> int:
    """Delete the exposures, values and sums of forced users in the caller's transaction, and return their number.

    Frozen results do not change.
    """
    if experiment.status == Status.DRAFT or not experiment.forced_variants:
        return 0
    lock_environment(experiment.environment)
    [state] = lock_results([experiment.pk])
    if Experiment.objects.filter(pk=experiment.pk).exclude(frozen_at=None).exists():
        return 0
    theirs = Exposure.objects.filter(experiment=experiment, user_id__in=list(experiment.forced_variants))
    # The order in which recording locks them.
    exposures = lock_for_deletion(
        theirs.order_by("user_id").only("experiment_id", "user_id"), experiment.forced_variants.keys()
    )
    exposed = sorted(exposure.user_id for exposure in exposures)
    if not exposed:
        return 0
    theirs.filter(user_id__in=exposed).delete()
    forget_open_reading(state)
    update = Update(state, experiment)
    with planned(**WITHOUT_JIT):
        update.remove(exposed)
        update.store()
    state.save()  # a refresh that sees the database as it was before fails, instead of restoring the values
    return len(exposed)


def remove_late_forced_exposures(experiment: Experiment) -> int:
    """Remove exposures of forced users that were recorded meanwhile, if any, in a transaction of its own."""
    if experiment.frozen_at is not None or not experiment.forced_variants:
        return 0
    if not Exposure.objects.filter(experiment=experiment, user_id__in=list(experiment.forced_variants)).exists():
        return 0
    with transaction.atomic():
        return remove_forced_exposures(experiment)


def remove_all_forced_exposures(now: datetime) -> str:
    """Remove the exposures of forced users in all experiments whose results are not frozen: a periodic task."""
    unfrozen = Experiment.objects.started().filter(frozen_at=None)
    forcing = unfrozen.exclude(forced_variants={}).select_related("environment")
    number = sum(remove_late_forced_exposures(experiment) for experiment in forcing.order_by("pk"))
    return f"removed {format_count(number, 'exposure')} of users with a forced variant"
