"""Which properties the newest events of a name have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from config.models import Environment
from events.models import Event

EVENTS_READ = 200
"""How many of the newest events of a name are searched for properties."""
MOST_PROPERTIES = 100
_MOST_EXAMPLES = 3


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
        return [self._examples[spelled] for spelled, _ in self._counts.most_common(_MOST_EXAMPLES)]


def newest_events(environment: Environment, name: str) -> NewestEvents:
    """Return what the newest events of this name are like, with one query."""
    newest = Event.objects.filter(environment=environment, name=name).order_by("-timestamp", "-id")
    rows = list(newest.values_list("timestamp", "properties")[:EVENTS_READ])
    values: dict[str, _Values] = {}
    for _, properties in rows:
        for key, value in _known(properties):
            values.setdefault(key, _Values()).add(value)
    names = sorted(values, key=lambda key: (-values[key].kinds.total(), key))[:MOST_PROPERTIES]
    seen = [_seen(key, values[key], len(rows)) for key in names]
    return NewestEvents(len(rows), rows[0][0] if rows else None, seen)


def seen_properties(environment: Environment, name: str) -> Sequence[SeenProperty]:
    """Return the properties of the newest events of this name, the most frequent first, with one query."""
    return newest_events(environment, name).properties


def _seen(name: str, values: _Values, number: int) -> SeenProperty:
    kinds = values.kinds
    return SeenProperty(name, kinds.most_common(1)[0][0], kinds.total() / number, values.examples)


def _known(properties: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    return ((name, value) for name, value in properties.items() if name and value is not None)


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "yes or no"
    if isinstance(value, int | float):
        return "number"
    return "text" if isinstance(value, str) else "other"
