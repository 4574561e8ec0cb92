"""Counting exposed users and conversions by one slow statement over all exposures and events, without totals."""

from __future__ import annotations

from datetime import UTC

from django.db.models import Count, Exists, OuterRef, QuerySet
from django.db.models.functions import TruncSecond

from events.models import Event, EventQuerySet
from experiments.models import Experiment, Exposure


def count_directly(experiment: Experiment) -> dict[str, tuple[int, ...]]:
    """Return by variant the exposed users, and those of them with an event of the first metric's name afterwards."""
    converted = Count("user_id", filter=Exists(_conversions(experiment)))
    counted = _exposed(experiment).values_list("variant").annotate(exposed=Count("user_id"), converted=converted)
    by_variant = {variant: counts for variant, *counts in counted.order_by()}
    return {key: tuple(by_variant.get(key, (0, 0))) for key in experiment.variant_keys}


def _exposed(experiment: Experiment) -> QuerySet[Exposure]:
    exposures = Exposure.objects.filter(experiment=experiment)
    if experiment.stopped_at is not None:
        exposures = exposures.filter(exposed_at__lte=experiment.stopped_at)
    return exposures.annotate(counts_from=TruncSecond("exposed_at", tzinfo=UTC))


def _conversions(experiment: Experiment) -> EventQuerySet:
    """Return the events that convert the exposed user of the outer query."""
    of_user = Event.objects.filter(
        environment=experiment.environment_id, name=experiment.metrics[0], user_id=OuterRef("user_id")
    )
    events = of_user.referring_to("", *experiment.references()).counted_from(OuterRef("counts_from"))
    return events if experiment.stopped_at is None else events.counted_until(experiment.stopped_at)
