"""What frozen results keep of the events, which may be gone: what they say that does not follow from sums."""

from __future__ import annotations

from django.db import transaction

from config.documents import Document
from config.reading import at_one_moment
from experiments.audit.assignments import assignments_document, audit_assignments, parse_assignments
from experiments.models import Experiment, Fold
from experiments.results.anomalies import audit, events_of_unknown_variants
from experiments.results.explanation import explain, explain_all
from experiments.results.parameters import metric_choice, phase_choice, refuse_unknown, variant_choice
from experiments.results.types import Audit
from experiments.totals.dialects import planned
from experiments.totals.folding import hold

_WITHOUT_STATISTICS = {"enable_nestloop": "off"}
"""Of an experiment that it has none of, PostgreSQL expects one user, and would hold all against each event."""


def keep(experiment: Experiment) -> None:
    """Keep that of a frozen experiment, unless it is kept already."""
    with at_one_moment(), planned(**_WITHOUT_STATISTICS):
        found = audit(experiment)
        kept = {
            "explanations": explain_all(experiment),
            "eventsOfUnknownVariants": events_of_unknown_variants(experiment).count(),
            "eventsBeforeExposure": found.events_before_exposure,
            "assignments": assignments_document(found.assignments),
        }
    with transaction.atomic():
        hold([experiment.pk])
        # It may have been opened again meanwhile: what it tells then is no longer what it told.
        if Experiment.objects.filter(pk=experiment.pk, frozen_at=experiment.frozen_at).exists():
            Fold.objects.filter(pk=experiment.pk, kept__isnull=True).update(kept=kept)


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
    with at_one_moment(), planned(**_WITHOUT_STATISTICS):
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
    kept: Document | None = Fold.objects.filter(experiment=experiment).values_list("kept", flat=True).first()
    return kept
