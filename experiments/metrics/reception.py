"""Which events of metrics an environment has received, and which properties they have lately had."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from config.models import Environment
from events.counts.queries import missing_names
from events.models import Event
from experiments.metrics.definition import Definition

_EVENTS_READ = 200
"""How many of the newest events of a name are searched for properties."""
MOST_PROPERTIES = 100


@dataclass(frozen=True, slots=True)
class SeenProperty:
    """A property of recent events, and the kind of values that it mostly has: text, number, yes or no, or other."""

    name: str
    kind: str


def never_received(definitions: Iterable[Definition], environment: Environment) -> set[str]:
    """Return the names of the metrics' events that the environment never received, with one query."""
    return missing_names(environment, (name for definition in definitions for name in definition.events))


def seen_properties(environment: Environment, event: str) -> list[SeenProperty]:
    """Return the properties of the newest events of this name, the most frequent first, with one query."""
    newest = Event.objects.filter(environment=environment, name=event).order_by("-timestamp", "-id")
    counted: dict[str, Counter[str]] = {}
    for properties in newest.values_list("properties", flat=True)[:_EVENTS_READ]:
        for name, value in _known(properties):
            counted.setdefault(name, Counter())[_kind(value)] += 1
    names = sorted(counted, key=lambda name: (-counted[name].total(), name))[:MOST_PROPERTIES]
    return [SeenProperty(name, counted[name].most_common(1)[0][0]) for name in names]


def _known(properties: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    return ((name, value) for name, value in properties.items() if name and value is not None)


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "yes or no"
    if isinstance(value, int | float):
        return "number"
    return "text" if isinstance(value, str) else "other"
