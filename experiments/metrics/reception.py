"""Which events of metrics an environment has received, and which have stopped."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from config.models import Environment
from events.counts.queries import missing_names
from events.counts.stopped import Stopped, stopped_events
from experiments.metrics.definition import Definition


def never_received(definitions: Iterable[Definition], environment: Environment) -> set[str]:
    """Return the names of the metrics' events that the environment never received, with one query."""
    return missing_names(environment, (name for definition in definitions for name in definition.events))


def stopped(definitions: Iterable[Definition], environment: Environment, now: datetime) -> dict[str, Stopped]:
    """Return the metrics' events that the environment received steadily, and then no more, with one query."""
    return stopped_events(environment, (name for definition in definitions for name in definition.events), now)
