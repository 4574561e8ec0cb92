"""Finding the events of an experiment, by all ids and keys that they may name it by."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from django.db.models import Q
from django.dispatch import Signal

from config.models import Environment
from events.models import EXPERIMENT_LENGTH, Event, EventQuerySet
from events.properties import EXPERIMENT_ID, reference_of

asking_for_names = Signal()
"""Sent with `environment` and `reference`, an id or key, because only `experiments` knows the
others.

A receiver returns all names of that experiment.
"""


def filter_by_experiment(events: EventQuerySet, environment: Environment, reference: str) -> EventQuerySet:
    """Return the events that name an experiment, by its id or by its key. `reference` may be
    either.
    """
    condition = Q()
    for name in _names_in_use(environment, reference):
        condition |= _has_name(name)
    # For the partial index: SQLite uses it only if the query contains the condition of the index.
    return events.filter(condition).exclude(experiment="")


def all_names(environment: Environment, reference: str) -> list[str]:
    """Return all names that events may have for an experiment, by one of them."""
    answers: Iterable[tuple[object, Any]] = asking_for_names.send(
        sender=Event, environment=environment, reference=reference
    )
    # The reference itself is one of the names, because events may name an experiment that does not exist.
    return list(dict.fromkeys([*(name for _, answer in answers for name in answer), reference_of(reference)]))


def _names_in_use(environment: Environment, reference: str) -> Sequence[str]:
    names = all_names(environment, reference)
    if len(names) == 1:
        return names
    # Clients mostly use one of the names. For one name, the index returns events in the order of
    # the pages, so nothing has to be sorted.
    events = Event.objects.filter(environment=environment).exclude(experiment="")
    return [name for name in names if events.filter(_has_name(name)).exists()] or names[:1]


def _has_name(name: str) -> Q:
    """Return the condition for an `experimentId`. The column contains only the beginning of a long
    one.
    """
    condition = Q(experiment=name[:EXPERIMENT_LENGTH])
    return condition if len(name) < EXPERIMENT_LENGTH else condition & Q(**{f"properties__{EXPERIMENT_ID}": name})
