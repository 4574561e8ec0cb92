"""What frozen results keep of the events, which may be gone: what they say that does not follow from sums."""

from __future__ import annotations

from config.documents import Document
from config.reading import at_one_moment
from experiments.models import Experiment, Fold
from experiments.results.anomalies import audit, events_of_unknown_variants
from experiments.results.explanation import explain, explain_all
from experiments.results.parameters import metric_choice, refuse_unknown, variant_choice
from experiments.results.types import Audit
from experiments.totals.dialects import planned

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
            "unexpectedVariants": found.unexpected_variants,
        }
    Fold.objects.filter(pk=experiment.pk, kept__isnull=True).update(kept=kept)


def explain_metric(experiment: Experiment, metric: str, variant: str) -> Document:
    """The explanation of a metric by its key: as it was kept when the results froze, or else counted now.

    Raises ValidationFailed, by the names of the API's parameters, where the experiment does not have it or the variant.
    """
    refuse_unknown(metric_choice(experiment, metric), variant_choice(experiment, "variant", variant))
    place = experiment.metrics.index(metric)
    kept = _read(experiment)
    if kept:
        explained: Document = kept["explanations"][str(place)][variant]
        return explained
    with at_one_moment(), planned(**_WITHOUT_STATISTICS):
        return explain(experiment, place, variant)


def count_unknown_variants(experiment: Experiment) -> int:
    """The events that report a variant which the experiment does not have: as they were kept, or else as they are."""
    kept = _read(experiment)
    return int(kept["eventsOfUnknownVariants"]) if kept else events_of_unknown_variants(experiment).count()


def audited(experiment: Experiment) -> Audit:
    """The audit of a started experiment: as it was kept, or else made now."""
    kept = _read(experiment)
    return Audit(kept["eventsBeforeExposure"], kept["unexpectedVariants"]) if kept else audit(experiment)


def _read(experiment: Experiment) -> Document | None:
    if experiment.frozen_at is None:
        return None
    kept: Document | None = Fold.objects.filter(experiment=experiment).values_list("kept", flat=True).first()
    return kept
