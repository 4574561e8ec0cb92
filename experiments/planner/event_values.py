"""The values of the events of a quantile, for calibrations, which split the users of an experiment again and again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime

from config.timestamps import floor_to_second
from events.models import Event
from experiments.aggregates.statements import earliest_event
from experiments.metrics.definition import Definition
from experiments.models import Experiment
from experiments.planner.sample import values_of


def read_event_values(
    experiment: Experiment, definition: Definition, exposed: Mapping[str, datetime]
) -> Iterator[tuple[str, float]]:
    """Yield the user id and the value of each event that the metric counts, as its totals do.

    `exposed` has the moments of the exposures by user id.
    """
    earliest = earliest_event(experiment)
    events = Event.objects.filter(
        environment=experiment.environment_id,
        name=definition.quantity.event,
        experiment__in=["", *experiment.references()],
        timestamp__gte=earliest,
        received_at__gte=earliest,
    )
    columns = ("user_id", "name", "timestamp", "received_at", "properties")
    for user_id, name, timestamp, received_at, properties in events.values_list(*columns).iterator():
        at = min(timestamp, received_at)
        if user_id in exposed and _counts(at, exposed[user_id], definition, experiment.stopped_at):
            for value in values_of(definition.quantity, [(name, at, properties)]):
                yield user_id, value


def _counts(at: datetime, exposed_at: datetime, definition: Definition, stopped_at: datetime | None) -> bool:
    base = floor_to_second(exposed_at)
    if at < base + definition.delay or (stopped_at is not None and at > stopped_at):
        return False
    return definition.span is None or at < base + definition.span
