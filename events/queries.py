"""Questions about events: which name an experiment, which have arrived just now, and what the newest are like."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db.models import Q
from django.dispatch import Signal

from config.database.commit_order import live_watermark, newest_arrivals
from config.models import Environment
from events.models import EXPERIMENT_LENGTH, VARIANT_LENGTH, Event, EventQuerySet
from events.properties import EXPERIMENT_ID, reference_of

asking_for_names = Signal()
"""Sent with `environment` and `reference`, an id or key, because only `experiments` knows the others.

A receiver returns all names of that experiment.
"""

MAX_IN_TAIL = 100
"""The live tail answers with at most so many events, the newest."""
MAX_SEARCHED = 5_000
"""The live tail searches so many of the newest events of all environments for those that it wants."""

_EVENTS_READ = 200
"""So many of the newest events of a name are searched for properties."""
MAX_PROPERTIES = 100
_MAX_EXAMPLES = 3


def filter_by_experiment(events: EventQuerySet, environment: Environment, reference: str) -> EventQuerySet:
    """Return the events that name an experiment by its id or by its key. `reference` may be either."""
    condition = Q()
    for name in _names_in_use(environment, reference):
        condition |= _has_name(name)
    # For the partial index: SQLite uses it only if the query contains the condition of the index.
    return events.filter(condition).exclude(experiment="")


def _all_names(environment: Environment, reference: str) -> list[str]:
    """Return all names that events may have for an experiment, by one of them."""
    answers: Iterable[tuple[object, Any]] = asking_for_names.send(
        sender=Event, environment=environment, reference=reference
    )
    # The reference itself is one of the names, because events may name an experiment that does not exist.
    return list(dict.fromkeys([*(name for _, answer in answers for name in answer), reference_of(reference)]))


def _names_in_use(environment: Environment, reference: str) -> Sequence[str]:
    names = _all_names(environment, reference)
    if len(names) == 1:
        return names
    # Clients mostly use one of the names. For one name, the index returns events in the order of the pages, so nothing
    # has to be sorted.
    events = Event.objects.filter(environment=environment).exclude(experiment="")
    return [name for name in names if events.filter(_has_name(name)).exists()] or names[:1]


def _has_name(name: str) -> Q:
    """Return the condition for an `experimentId`. The column contains only the beginning of a long one."""
    condition = Q(experiment=name[:EXPERIMENT_LENGTH])
    return condition if len(name) < EXPERIMENT_LENGTH else condition & Q(**{f"properties__{EXPERIMENT_ID}": name})


@dataclass(frozen=True, slots=True)
class TailFilter:
    """What a reader follows: all events of the environment, or those that have all of these values."""

    event: str = ""
    user_id: str = ""
    experiment: str = ""
    variant: str = ""

    def condition(self, environment: Environment) -> Q:
        values = {"name": self.event, "user_id": self.user_id, "variant": self.variant[:VARIANT_LENGTH]}
        condition = Q(environment=environment, **{column: value for column, value in values.items() if value})
        if self.experiment:
            names = _all_names(environment, self.experiment)
            condition &= Q(experiment__in=[name[:EXPERIMENT_LENGTH] for name in names])
        return condition


@dataclass(frozen=True, slots=True)
class Tail:
    """The newest events in the order of commits, the newest first, and the watermark from which to read on.

    `has_more` says that others arrived in the same time, which are not among these.
    """

    events: Sequence[Event]
    watermark: str
    has_more: bool


def read_tail(environment: Environment, followed: TailFilter, since: str | None) -> Tail:
    """Return the events that arrived since a watermark, or only the current watermark, with at most two queries.

    No late commit is missed. Reading writes nothing, and needs no index of its own.
    """
    watermark = live_watermark(Event._meta.db_table)
    if since is None:
        return Tail([], watermark, False)
    arrived = newest_arrivals(Event, since, limit=MAX_SEARCHED).filter(followed.condition(environment))
    events = list(arrived[: MAX_IN_TAIL + 1])
    shown = sorted(events[:MAX_IN_TAIL], key=lambda event: (event.received_at, event.timestamp), reverse=True)
    return Tail(shown, watermark, len(events) > MAX_IN_TAIL)


@dataclass(frozen=True, slots=True)
class SeenProperty:
    """A property of recent events, and the kind of values that it mostly has: text, number, yes or no, or other.

    `share` is the share of the events that have it, and `examples` are its most frequent values.
    """

    name: str
    kind: str
    share: float = field(default=0, compare=False)
    examples: Sequence[Any] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class NewestEvents:
    """The properties of the newest events of a name, the most frequent first.

    `number` events were read, and `latest` is the timestamp of the newest one.
    """

    number: int
    latest: datetime | None
    properties: Sequence[SeenProperty]


class _Values:
    """The values that one property had."""

    def __init__(self) -> None:
        self.kinds: Counter[str] = Counter()
        self._examples: dict[str, Any] = {}
        self._counts: Counter[str] = Counter()

    def add(self, value: Any) -> None:
        kind = _kind(value)
        self.kinds[kind] += 1
        if kind != "other":
            spelled = f"{kind} {value}"
            self._examples.setdefault(spelled, value)
            self._counts[spelled] += 1

    @property
    def examples(self) -> list[Any]:
        return [self._examples[spelled] for spelled, _ in self._counts.most_common(_MAX_EXAMPLES)]


def newest_events(environment: Environment, name: str) -> NewestEvents:
    """Return what the newest events of this name are like, with one query."""
    newest = Event.objects.filter(environment=environment, name=name).order_by("-timestamp", "-id")
    rows = list(newest.values_list("timestamp", "properties")[:_EVENTS_READ])
    values: dict[str, _Values] = {}
    for _, properties in rows:
        for key, value in _known(properties):
            values.setdefault(key, _Values()).add(value)
    names = sorted(values, key=lambda key: (-values[key].kinds.total(), key))[:MAX_PROPERTIES]
    seen = [_seen(key, values[key], len(rows)) for key in names]
    return NewestEvents(len(rows), rows[0][0] if rows else None, seen)


def _seen(name: str, values: _Values, number: int) -> SeenProperty:
    kinds = values.kinds
    return SeenProperty(name, kinds.most_common(1)[0][0], kinds.total() / number, values.examples)


def _known(properties: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    return ((name, value) for name, value in properties.items() if name and value is not None)


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "yes or no"
    if isinstance(value, int | float):
        return "number"
    return "text" if isinstance(value, str) else "other"
