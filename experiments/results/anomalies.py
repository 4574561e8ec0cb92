"""What does not fit among the events and exposures of an experiment. What it means for results is for those to say."""

from __future__ import annotations

from datetime import UTC

from django.db.models import Exists, OuterRef
from django.db.models.functions import Least, TruncSecond

from config.timestamps import floor_to_second
from events.models import Event, EventQuerySet
from experiments.aggregates.statements import exposed_users
from experiments.metrics.documents import definitions_of
from experiments.models import Experiment
from experiments.results.assignment_audit import audit_assignments
from experiments.results.types import Audit


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
        events.naming("", *experiment.references())
        .counted_from(floor_to_second(experiment.started_at))
        .filter(Exists(later))
    )
