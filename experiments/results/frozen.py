"""What frozen results keep of the events, which may be gone: what they say that does not follow from sums.

Results of stopped experiments stand still once no user's window is open, so that old events may go."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import transaction

from config.database.consistent_reads import read_consistently
from config.documents import Document
from events.removal.batches import several
from experiments.aggregates.dialects import planned
from experiments.aggregates.refresh import refresh_locked
from experiments.exposures.recording import events_of_unknown_variants
from experiments.exposures.up_to_date import bring_up_to_date
from experiments.metrics.documents import definitions_of
from experiments.models import AggregateState, Experiment, Status
from experiments.models.locks import lock_aggregates
from experiments.results.anomalies import audit
from experiments.results.assignment_audit import assignments_document, audit_assignments, parse_assignments
from experiments.results.explanation import explain, explain_all
from experiments.results.parameters import metric_choice, phase_choice, refuse_unknown, variant_choice
from experiments.results.types import Audit

_WITHOUT_STATISTICS = {"enable_nestloop": "off"}
"""Of an experiment that it has none of, PostgreSQL expects one user, and would hold all against each event."""


def keep(experiment: Experiment) -> None:
    """Keep that of a frozen experiment, unless it is kept already."""
    with read_consistently(), planned(**_WITHOUT_STATISTICS):
        found = audit(experiment)
        kept = {
            "explanations": explain_all(experiment),
            "eventsOfUnknownVariants": events_of_unknown_variants(experiment).count(),
            "eventsBeforeExposure": found.events_before_exposure,
            "assignments": assignments_document(found.assignments),
        }
    with transaction.atomic():
        lock_aggregates([experiment.pk])
        # It may have been opened again meanwhile: what it tells then is no longer what it told.
        if Experiment.objects.filter(pk=experiment.pk, frozen_at=experiment.frozen_at).exists():
            AggregateState.objects.filter(pk=experiment.pk, kept__isnull=True).update(kept=kept)


def explain_metric(experiment: Experiment, metric: str, variant: str, phase: str | None = None) -> Document:
    """The explanation of a metric by its key: as it was kept when the results froze, or else counted now.

    Raises ValidationFailed, by the names of the API's parameters, where the experiment does not have one of these.
    """
    metric_and_variant = metric_choice(experiment, metric), variant_choice(experiment, "variant", variant)
    refuse_unknown(*metric_and_variant, phase_choice(experiment, phase))
    place = experiment.metrics.index(metric)
    kept = _read(experiment)
    if kept:
        told: Document = kept["explanations"][str(place)][variant]
        by_choice: Document = told.pop("choices", {})  # only where there are several phases
        return told if phase is None else by_choice.get(phase, told)
    with read_consistently(), planned(**_WITHOUT_STATISTICS):
        return explain(experiment, place, variant, phase)


def count_unknown_variants(experiment: Experiment) -> int:
    """The events that report a variant which the experiment does not have: as they were kept, or else as they are."""
    kept = _read(experiment)
    return int(kept["eventsOfUnknownVariants"]) if kept else events_of_unknown_variants(experiment).count()


def audited(experiment: Experiment) -> Audit:
    """The audit of a started experiment: as it was kept, or else made now."""
    kept = _read(experiment)
    if not kept:
        with planned(**_WITHOUT_STATISTICS):
            return audit(experiment)
    told = kept.get("assignments")  # which results that froze earlier have not kept; exposures stay
    return Audit(kept["eventsBeforeExposure"], parse_assignments(told) if told else audit_assignments(experiment))


def _read(experiment: Experiment) -> Document | None:
    if experiment.frozen_at is None:
        return None
    kept: Document | None = AggregateState.objects.filter(experiment=experiment).values_list("kept", flat=True).first()
    return kept


_FOR_LATE_EVENTS = timedelta(days=1)
"""After the stop, at least: clients may send what happened before it later."""


def refresh_results(now: datetime) -> str:
    """Bring the results of every experiment up to date that is not frozen, and freeze those whose time has come.

    A periodic task: readers then find little left to fold.
    """
    folded, frozen = 0, 0
    for experiment in Experiment.objects.measured_by_events().order_by("pk"):
        if experiment.frozen_at is not None or is_due(experiment, now):
            freeze(experiment, now)
            frozen += 1
        else:
            bring_up_to_date(experiment, now)
            folded += 1
    return f"brought {several(folded, 'experiment')} up to date and froze {several(frozen, 'other')}"


def is_due(experiment: Experiment, now: datetime) -> bool:
    """Whether it has been stopped for as long as the longest of its metrics looks, and for a day at least."""
    if experiment.stopped_at is None:
        return False
    spans = (each.delay + (each.window or timedelta(0)) for each in definitions_of(experiment))
    return now >= experiment.stopped_at + max([_FOR_LATE_EVENTS, *spans])


def freeze(experiment: Experiment, at: datetime) -> None:
    """Refresh a stopped experiment for the last time, and keep how its figures came about.

    Explaining millions of events takes a while, in which nobody should have to wait for the totals. The events stay
    until the explanation is kept; one that broke off is made by the next call.
    """
    with transaction.atomic():
        [held] = lock_aggregates([experiment.pk])
        refresh_for_the_last_time(held, at)
    frozen = Experiment.objects.filter(pk=experiment.pk).exclude(frozen_at=None).first()
    if frozen is not None:
        keep(frozen)


def refresh_for_the_last_time(held: AggregateState, at: datetime) -> None:
    """Freeze the totals of a stopped experiment whose fold is held. What `keep` keeps is for when that is committed."""
    refresh_locked(held, at)
    Experiment.objects.filter(pk=held.pk, status=Status.STOPPED, frozen_at=None).update(frozen_at=at)
