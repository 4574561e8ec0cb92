"""The names by which events may call one experiment, which `events` cannot know by itself."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from django.db.models import Q
from django.dispatch import Signal

from config.models import Environment
from events.models import EXPERIMENT_LENGTH, Event, EventQuerySet
from events.properties import EXPERIMENT_ID

asking_for_names = Signal()
"""Sent with `environment` and `reference`, an id or key. A receiver answers with all names of that
experiment.
"""


def find_of_experiment(events: EventQuerySet, environment: Environment, reference: str) -> EventQuerySet:
    """Return those of the events that name an experiment, by its id or its key, whichever of them
    is given.
    """
    used = _names_in_use(environment, reference)
    named = Q()
    for name in used:
        named |= _naming(name)
    # An index of those that name one at all; SQLite takes it only where the query has its very
    # condition.
    return events.filter(named).exclude(experiment="")


def _names_in_use(environment: Environment, reference: str) -> Sequence[str]:
    answers: Iterable[tuple[object, Any]] = asking_for_names.send(
        sender=Event, environment=environment, reference=reference
    )
    names = list(dict.fromkeys(name for _, found in answers for name in found)) or [reference]
    if len(names) == 1:
        return names
    # Clients mostly agree on one spelling. The index gives the events of one name in the order of
    # the pages, so that nothing has to be sorted.
    own = Event.objects.filter(environment=environment).exclude(experiment="")
    return [name for name in names if own.filter(_naming(name)).exists()] or names[:1]


def _naming(name: str) -> Q:
    """The column holds the beginning of a long name."""
    named = Q(experiment=name[:EXPERIMENT_LENGTH])
    return named if len(name) < EXPERIMENT_LENGTH else named & Q(**{f"properties__{EXPERIMENT_ID}": name})
