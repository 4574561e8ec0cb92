"""What does not fit among the events and exposures of an experiment. What it means for results is for those to say."""

from __future__ import annotations

from datetime import UTC

from django.db.models import Exists, OuterRef, Q
from django.db.models.functions import Least, TruncSecond

from events.models import Event, EventQuerySet
from events.properties import VARIANT
from experiments.audit.assignments import audit_assignments
from experiments.exposures import floor_to_second, references
from experiments.metrics.frozen import definitions_of, outcome_names
from experiments.models import Experiment
from experiments.results.types import Audit
from experiments.totals.queries import exposed_users


def events_of_unknown_variants(experiment: Experiment) -> EventQuerySet:
    """The events that report a variant which the experiment does not have."""
    naming = Event.objects.filter(environment=experiment.environment_id).naming(*references(experiment))
    reporting = naming.filter(properties__has_key=VARIANT)
    known = Q()
    for key in experiment.variant_keys:
        known |= Q(**{f"properties__{VARIANT}": key})
    return reporting.exclude(name__in=outcome_names(experiment)).exclude(known)


def audit(experiment: Experiment) -> Audit:
    """What takes seconds for a million users, of a started experiment."""
    return Audit(_events_before_exposure(experiment).count(), audit_assignments(experiment))


def _events_before_exposure(experiment: Experiment) -> EventQuerySet:
    """The events that the metrics look at and that exposed users did since the start, but before their exposure.

    Many of them say that exposures are reported too late, or not where the change is seen.
    """
    assert experiment.started_at is not None  # noqa: S101 (a draft has no exposures)
    exposures = exposed_users(experiment).filter(user_id=OuterRef("user_id"))
    later = exposures.annotate(base=TruncSecond("exposed_at", tzinfo=UTC)).filter(
        base__gt=Least(OuterRef("timestamp"), OuterRef("received_at"))
    )
    names = {name for definition in definitions_of(experiment) for name in definition.events}
    events = Event.objects.filter(environment=experiment.environment_id, name__in=names)
    return (
        events.naming("", *references(experiment))
        .counted_from(floor_to_second(experiment.started_at))
        .filter(Exists(later))
    )
