"""Freezing the results of stopped experiments, after which old events may be deleted.

The sums of frozen results stay as they are. Whatever else results read from events is stored when they freeze.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import transaction

from config.database.consistent_reads import read_consistently
from config.documents import Document
from events.removal.batches import format_count
from experiments.aggregates.dialects import planned
from experiments.aggregates.refresh import refresh_locked
from experiments.exposures.recording import events_of_unknown_variants
from experiments.exposures.up_to_date import bring_up_to_date
from experiments.metrics.documents import definitions_of
from experiments.models import AggregateState, Experiment, Status
from experiments.models.locks import lock_aggregates
from experiments.results.assignment_audit import (
    assignment_audit_document,
    audit_assignments,
    count_events_before_exposure,
    parse_assignment_audit,
)
from experiments.results.classification import AssignmentAudit
from experiments.results.explanation import explain, explain_all

# Without statistics of an experiment, PostgreSQL expects one user, and would compare all exposures with each event.
_WITHOUT_STATISTICS = {"enable_nestloop": "off"}
_FOR_LATE_EVENTS = timedelta(days=1)
"""The minimum time from the stop until the freeze, because clients may send events late."""


# freezing


def refresh_results(now: datetime) -> str:
    """Bring the results of every experiment up to date that is not frozen, and freeze those that are due.

    This is a periodic task, so that little is left to refresh when somebody reads results.
    """
    refreshed, frozen = 0, 0
    for experiment in Experiment.objects.measured_by_events().order_by("pk"):
        if experiment.frozen_at is not None or is_due(experiment, now):
            freeze(experiment, now)
            frozen += 1
        else:
            bring_up_to_date(experiment, now)
            refreshed += 1
    return f"brought {format_count(refreshed, 'experiment')} up to date and froze {format_count(frozen, 'other')}"


def is_due(experiment: Experiment, now: datetime) -> bool:
    """Return whether an experiment can freeze: a day after its stop, or later if the window of a metric is longer."""
    if experiment.stopped_at is None:
        return False
    spans = (definition.delay + (definition.window or timedelta(0)) for definition in definitions_of(experiment))
    return now >= experiment.stopped_at + max([_FOR_LATE_EVENTS, *spans])


def freeze(experiment: Experiment, at: datetime) -> None:
    """Refresh a stopped experiment for the last time, and store what its results need in addition to the sums.

    The second part runs without the lock, because explaining millions of events takes a while. If it breaks off,
    the next call repeats it; until then the events are not deleted.
    """
    with transaction.atomic():
        [state] = lock_aggregates([experiment.pk])
        refresh_for_the_last_time(state, at)
    frozen = Experiment.objects.filter(pk=experiment.pk).exclude(frozen_at=None).first()
    if frozen is not None:
        _store(frozen)


def refresh_for_the_last_time(state: AggregateState, at: datetime) -> None:
    """Freeze the totals of a stopped experiment whose aggregates are locked.

    After the commit, `freeze` must store the rest.
    """
    refresh_locked(state, at)
    Experiment.objects.filter(pk=state.pk, status=Status.STOPPED, frozen_at=None).update(frozen_at=at)


def _store(experiment: Experiment) -> None:
    """Store what the results of a frozen experiment need in addition to the sums, unless it is stored already."""
    with read_consistently(), planned(**_WITHOUT_STATISTICS):
        stored = {
            "explanations": explain_all(experiment),
            "eventsOfUnknownVariants": events_of_unknown_variants(experiment).count(),
            "eventsBeforeExposure": count_events_before_exposure(experiment),
            "assignments": assignment_audit_document(audit_assignments(experiment)),
        }
    with transaction.atomic():
        lock_aggregates([experiment.pk])
        # The experiment may have been reopened meanwhile, and then its results are no longer the same.
        if Experiment.objects.filter(pk=experiment.pk, frozen_at=experiment.frozen_at).exists():
            AggregateState.objects.filter(pk=experiment.pk, kept__isnull=True).update(kept=stored)


# reading: what was stored if the results are frozen, or else what the events say now


def read_explanation(experiment: Experiment, metric_index: int, variant: str, phase: str | None) -> Document:
    """Return the explanation of a metric in one variant. `phase` is one of `design.phases.choices`, or None."""
    stored = _read(experiment)
    if stored:
        explained: Document = stored["explanations"][str(metric_index)][variant]
        by_choice: Document = explained.pop("choices", {})  # only with several phases
        return explained if phase is None else by_choice.get(phase, explained)
    with read_consistently(), planned(**_WITHOUT_STATISTICS):
        return explain(experiment, metric_index, variant, phase)


def read_unknown_variants(experiment: Experiment) -> int:
    """Return the number of events that report a variant which the experiment does not have."""
    stored = _read(experiment)
    return int(stored["eventsOfUnknownVariants"]) if stored else events_of_unknown_variants(experiment).count()


def read_assignment_audit(experiment: Experiment) -> tuple[int, AssignmentAudit]:
    """Return the number of events before exposure and the assignment audit of a started experiment."""
    stored = _read(experiment)
    if not stored:
        with planned(**_WITHOUT_STATISTICS):
            return count_events_before_exposure(experiment), audit_assignments(experiment)
    document = stored.get("assignments")
    # Results that froze in an older version have no audit stored, but their exposures are still there.
    audit = parse_assignment_audit(document) if document else audit_assignments(experiment)
    return stored["eventsBeforeExposure"], audit


def _read(experiment: Experiment) -> Document | None:
    if experiment.frozen_at is None:
        return None
    states = AggregateState.objects.filter(experiment=experiment)
    stored: Document | None = states.values_list("kept", flat=True).first()
    return stored
