"""Whether anything has arrived that results may count, without reading results."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from django.db.models import Model

from config.database.commit_order import count_arrivals, is_position, newest_position
from events.models import Event
from experiments.models import Experiment, Exposure

_MOST_SEARCHED = 5_000
"""How many of the newest arrivals are searched. Where there are more, something is taken to have changed."""
_SEPARATOR = "|"
_EVENTS, _EXPOSURES = Event._meta.db_table, Exposure._meta.db_table


def current_arrivals() -> str:
    """Return the position of events and exposures, for `has_arrivals`."""
    return _SEPARATOR.join((newest_position(_EVENTS), newest_position(_EXPOSURES)))


def can_be_arrivals(text: str) -> bool:
    """Return whether a text that a client sent can be such a position."""
    positions = text.split(_SEPARATOR)
    return len(positions) == 2 and all(map(is_position, positions))


def has_arrivals(experiment: Experiment, names: Collection[str], since: str) -> bool:
    """Return whether an exposure of the experiment, or an event with one of these names, has arrived since."""
    events, exposures = since.split(_SEPARATOR)
    of_metrics = {"environment": [experiment.environment_id], "name": names}
    return _has(Exposure, exposures, {"experiment": [experiment.pk]}) or _has(Event, events, of_metrics)


def _has(model: type[Model], since: str, wanted: Mapping[str, Collection[Any]]) -> bool:
    read, counted = count_arrivals(model, since, wanted, limit=_MOST_SEARCHED)
    return counted > 0 or read == _MOST_SEARCHED
