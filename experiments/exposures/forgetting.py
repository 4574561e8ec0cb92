"""What it means to experiments that events are forgotten: those of one user at once, or old ones by and by."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from config import signal_file
from config.database.locks import Rank, lock_environment, lock_rows
from config.models import Environment
from config.timestamps import floor_to_second
from events.models import Event
from events.removal.erasure import ChangedExperiment, Erased
from events.removal.retention import Hold
from experiments.aggregates.statements import LOOKBACK
from experiments.aggregates.update import AggregateUpdater
from experiments.exposures.recording import events_of_unknown_variants
from experiments.models import AggregateState, Experiment, Exposure, UserTotal
from experiments.models.locks import lock_aggregates


def forget_user(*, environment: Environment, user_id: str, **_: Any) -> Erased:
    """Delete the user's exposures and totals, and tell which experiments' numbers change without these and the events.

    Folds are held from here on, so that none computes totals from events that are about to go. Drafts have neither
    exposures nor totals, and none becomes more than a draft before the erasure is over.
    """
    transaction.on_commit(signal_file.poke)  # for who remembers what the user was told
    lock_environment(environment)
    here = Experiment.objects.in_environment(environment)
    folds = lock_aggregates(list(here.started().values_list("pk", flat=True)))
    experiments = list(here.filter(pk__in=[each.pk for each in folds]))
    theirs = Exposure.objects.filter(experiment__in=experiments, user_id=user_id)
    # In the order in which those who record lock them.
    exposures = lock_rows(Rank.EXPOSURES, theirs.order_by("experiment_id").only("experiment_id", "user_id"))
    exposed = {exposure.experiment_id for exposure in exposures}
    theirs.filter(experiment_id__in=exposed).delete()
    _forget_totals(experiments, folds, exposed, user_id)
    counted_in = (each for each in experiments if each.pk in exposed)
    changed = {each.key: each for each in (*counted_in, *_blaming(user_id, environment))}
    return Erased(
        exposures=len(exposed),
        experiments=[ChangedExperiment(each.pk, key, each.status) for key, each in sorted(changed.items())],
    )


def _forget_totals(
    experiments: Sequence[Experiment], folds: Sequence[AggregateState], exposed: Collection[UUID], user_id: str
) -> None:
    """Take the user out of totals and sums.

    The folds of all who exposed the user are written: what sees the database as it was before must not compute totals.
    """
    counted = set(
        UserTotal.objects.filter(experiment__in=experiments, user_id=user_id).values_list("experiment_id", flat=True)
    )
    by_id = {each.pk: each for each in experiments}
    for held in folds:
        if held.pk in counted:
            AggregateUpdater(held, by_id[held.pk]).remove(user_id)
        if held.pk in counted or held.pk in exposed:
            held.save()


def _blaming(user_id: str, environment: Environment) -> list[Experiment]:
    """The experiments, drafts among them, whose anomalies count events of the user."""
    open_ones = (each for each in _named_by(user_id, environment) if each.frozen_at is None)
    return [each for each in open_ones if events_of_unknown_variants(each).filter(user_id=user_id).exists()]


def _named_by(user_id: str, environment: Environment) -> list[Experiment]:
    """The experiments that events of the user name; such names may be many more than there are experiments.

    Read without a lock: no start is under way, and who records events of a draft must not wait for an erasure.
    """
    theirs = Event.objects.filter(environment=environment, user_id=user_id).order_by()
    names = set(theirs.exclude(experiment="").values_list("experiment", flat=True).distinct())
    if not names:
        return []
    here = Experiment.objects.in_environment(environment)
    named = [pk for pk, key in here.values_list("pk", "key") if not names.isdisjoint((str(pk), key))]
    return list(here.filter(pk__in=named))


def hold_events(*, environment: Environment, **_: Any) -> list[Hold]:
    """What results are computed from has to stay: everything since the start, and what the first users did before.

    Frozen results need no events, but those of an experiment that may be opened again would be computed anew.
    """
    here = Experiment.objects.in_environment(environment)
    needing = here.measured_by_events() | here.reopenable(timezone.now())
    starts = needing.values_list("key", "started_at")
    return [Hold(floor_to_second(at) - LOOKBACK, f"experiment {key}") for key, at in starts if at is not None]
