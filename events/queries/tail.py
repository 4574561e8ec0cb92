"""The events that have arrived since an earlier read, in the order of commits, for readers who follow them live.

Reading writes nothing, and needs no index of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Q

from config.database.commit_order import newest_arrivals, newest_position
from config.models import Environment
from events.models import EXPERIMENT_LENGTH, VARIANT_LENGTH, Event
from events.queries.experiment_names import all_names

MOST_SHOWN = 100
"""The most events of one answer, the newest."""
MOST_SEARCHED = 5_000
"""How many of the newest arrivals of all environments one read searches for those that it wants."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a reader follows: all events of the environment, or those that have all of these values."""

    event: str = ""
    user_id: str = ""
    experiment: str = ""
    variant: str = ""


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Events with the newest first, and the position from which to ask next.

    `has_more` says that others arrived in the same time, which are not among these.
    """

    events: Sequence[Event]
    position: str
    has_more: bool


def read_arrivals(environment: Environment, wanted: Wanted, since: str | None) -> Arrivals:
    """Return the events that arrived since a position, or only the current position, with at most two queries."""
    position = newest_position(Event._meta.db_table)
    if since is None:
        return Arrivals([], position, False)
    arrived = newest_arrivals(Event, since, limit=MOST_SEARCHED).filter(_is_wanted(environment, wanted))
    events = list(arrived[: MOST_SHOWN + 1])
    shown = sorted(events[:MOST_SHOWN], key=lambda event: (event.received_at, event.timestamp), reverse=True)
    return Arrivals(shown, position, len(events) > MOST_SHOWN)


def _is_wanted(environment: Environment, wanted: Wanted) -> Q:
    values = {"name": wanted.event, "user_id": wanted.user_id, "variant": wanted.variant[:VARIANT_LENGTH]}
    condition = Q(environment=environment, **{column: value for column, value in values.items() if value})
    if wanted.experiment:
        names = all_names(environment, wanted.experiment)
        condition &= Q(experiment__in=[name[:EXPERIMENT_LENGTH] for name in names])
    return condition
