"""What came of an experiment, counted by the database at the moment of the question: no number is kept anywhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC

from django.db.models import Count, Exists, OuterRef, Q, QuerySet, Value
from django.db.models.functions import TruncSecond

from events.models import Event, EventQuerySet
from events.properties import VARIANT
from experiments.exposures import references
from experiments.models import Experiment, Exposure


@dataclass(frozen=True, slots=True)
class VariantResult:
    """`sample_size`: distinct users exposed; `conversions`: those of them who did what the first metric names."""

    sample_size: int = 0
    conversions: int = 0

    @property
    def conversion(self) -> float:
        """The share of exposed users who converted, 0 to 1; 0 where nobody was exposed."""
        return self.conversions / self.sample_size if self.sample_size else 0.0


@dataclass(frozen=True, slots=True)
class Anomalies:
    """What does not fit: users reported in a second variant, and events that name a variant that does not exist."""

    users_in_several_variants: int
    events_of_unknown_variants: int


def compute_results(experiment: Experiment) -> Mapping[str, VariantResult]:
    """Exposed users and conversions by variant key, in the order of the experiment's variants.

    One statement counts both, and so one moment of the database: what was acknowledged before it is in it. As a filter
    of the count, the search for a conversion is an index probe for each user whatever the database believes about the
    tables; as a join it is faster with good statistics and a thousand times slower just after a large load.
    """
    converted = Count("user_id", filter=Exists(_conversions(experiment))) if experiment.metrics else Value(0)
    counted = _exposed(experiment).values("variant").annotate(exposed=Count("user_id"), converted=converted).order_by()
    found = {row["variant"]: VariantResult(row["exposed"], row["converted"]) for row in counted}
    return {key: found.get(key, VariantResult()) for key in experiment.variant_keys}


def count_anomalies(experiment: Experiment) -> Anomalies:
    return Anomalies(
        users_in_several_variants=_exposed(experiment).filter(is_in_several_variants=True).count(),
        events_of_unknown_variants=events_of_unknown_variants(experiment).count(),
    )


def events_of_unknown_variants(experiment: Experiment) -> EventQuerySet:
    """The events that report a variant which the experiment does not have."""
    naming = Event.objects.filter(environment=experiment.environment).naming(*references(experiment))
    reporting = naming.filter(properties__has_key=VARIANT)
    known = Q()
    for key in experiment.variant_keys:
        known |= Q(**{f"properties__{VARIANT}": key})
    return reporting.exclude(name__in=experiment.metrics).exclude(known)


def _exposed(experiment: Experiment) -> QuerySet[Exposure]:
    exposures = Exposure.objects.filter(experiment=experiment).annotate(
        counts_from=TruncSecond("exposed_at", tzinfo=UTC)
    )
    if experiment.stopped_at is not None:
        # An assignment that was under way while the experiment was stopped may carry a later moment.
        return exposures.filter(exposed_at__lte=experiment.stopped_at)
    return exposures


def _conversions(experiment: Experiment) -> EventQuerySet:
    """The events that convert the exposed user of the outer query."""
    events = (
        Event.objects.filter(
            environment=experiment.environment_id, name=experiment.metrics[0], user_id=OuterRef("user_id")
        )
        .naming("", *references(experiment))
        .counted_from(OuterRef("counts_from"))
    )
    return events if experiment.stopped_at is None else events.counted_until(experiment.stopped_at)
