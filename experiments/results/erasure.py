"""What experiments do when a user is erased, and which events they still need when old events are purged."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from config.database.locks import lock_environment
from config.database.planning import WITHOUT_JIT, planned
from config.models import Environment
from config.snapshot import signal_file
from config.timestamps import floor_to_second
from events.models import Event
from events.removal import ChangedExperiment, Erased, Hold
from experiments.exposures.recording import doubted_reports, events_of_unknown_variants
from experiments.models import Experiment, Exposure, ResultState, StoredOutcome, UserValue
from experiments.models.locks import lock_for_deletion, lock_results
from experiments.results.fixed_reading import forget_open_reading
from experiments.results.update import Update
from experiments.results.values import lookback_of
from flags.usage import sample_storage as recent_users


def forget_user(*, environment: Environment, user_id: str, **_: Any) -> Erased:
    """Delete the user's exposures and values, and the user from the sample of recent users.

    Return the experiments whose numbers change by the erasure.

    Results stay locked, so that no refresh computes values from events that are about to be deleted. Drafts have no
    exposures or values, and cannot start before the erasure is over.
    """
    transaction.on_commit(signal_file.signal_change)  # empties the caches of variants
    lock_environment(environment)
    recent_users.erase_user(environment, user_id, timezone.now())
    in_environment = Experiment.objects.in_environment(environment)
    states = lock_results(list(in_environment.started().values_list("pk", flat=True)))
    experiments = list(in_environment.filter(pk__in=[state.experiment_id for state in states]))
    theirs = Exposure.objects.filter(experiment__in=experiments, user_id=user_id)
    # The order in which recording locks them.
    exposures = lock_for_deletion(theirs.order_by("experiment_id").only("experiment_id", "user_id"), [user_id])
    exposed = {exposure.experiment_id for exposure in exposures}
    theirs.filter(experiment_id__in=exposed).delete()
    _remove_values(experiments, states, exposed, user_id)
    counted_in = (experiment for experiment in experiments if experiment.pk in exposed)
    changed = {experiment.key: experiment for experiment in (*counted_in, *_with_anomalies(user_id, environment))}
    return Erased(
        exposures=len(exposed),
        experiments=[
            ChangedExperiment(experiment.pk, key, experiment.status) for key, experiment in sorted(changed.items())
        ],
    )


def _remove_values(
    experiments: Sequence[Experiment], states: Sequence[ResultState], exposed: Collection[UUID], user_id: str
) -> None:
    """Remove the user from values and sums.

    The states of all experiments with an exposure of the user are saved. A transaction that sees the database as it was
    before then fails when it tries to store values.
    """
    counted = set(UserValue.objects.filter(state__in=states, user_id=user_id).values_list("state_id", flat=True))
    by_id = {experiment.pk: experiment for experiment in experiments}
    changing = [state for state in states if state.pk in counted or state.experiment_id in exposed]
    if not changing:
        return
    with planned(**WITHOUT_JIT):
        for state in changing:
            forget_open_reading(state)
            update = Update(state, by_id[state.experiment_id])
            update.remove([user_id])
            update.store()
            state.save()
            StoredOutcome.objects.filter(pk=state.experiment_id).delete()  # its figures count the user


def _with_anomalies(user_id: str, environment: Environment) -> list[Experiment]:
    """Return the experiments, drafts included, whose anomalies count events of the user."""
    unfrozen = (experiment for experiment in _named_by(user_id, environment) if experiment.frozen_at is None)
    anomalies = (events_of_unknown_variants, doubted_reports)
    return [
        experiment
        for experiment in unfrozen
        if any(events_of(experiment).filter(user_id=user_id).exists() for events_of in anomalies)
    ]


def _named_by(user_id: str, environment: Environment) -> list[Experiment]:
    """Return the experiments that events of the user name; events may also name experiments that do not exist.

    It takes no lock: no start is under way, and recording events of a draft must not wait for an erasure.
    """
    theirs = Event.objects.filter(environment=environment, user_id=user_id).order_by()
    names = set(theirs.exclude(experiment="").values_list("experiment", flat=True).distinct())
    if not names:
        return []
    in_environment = Experiment.objects.in_environment(environment)
    named = [pk for pk, key in in_environment.values_list("pk", "key") if not names.isdisjoint((str(pk), key))]
    return list(in_environment.filter(pk__in=named))


def hold_events(*, environment: Environment, **_: Any) -> list[Hold]:
    """Return the moments from which on events must stay, because results are computed from them.

    These are the events since the start, and those of the look-back before it. Frozen results need no events, but an
    experiment that may be reopened does.
    """
    in_environment = Experiment.objects.in_environment(environment)
    needing = in_environment.measured_by_events() | in_environment.reopenable(timezone.now())
    return [
        Hold(floor_to_second(experiment.started_at) - lookback_of(experiment), f"experiment {experiment.key}")
        for experiment in needing.only("key", "started_at", "registration")
        if experiment.started_at is not None
    ]
