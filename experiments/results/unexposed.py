"""Conversions of users who were never exposed, and ids that differ in little more than blanks.

Both take a pass over events or exposures, so results have them on demand only, with the audit, and imports say them at
their end.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from typing import Any

from django.db.models import Count, Exists, F, OuterRef, TextField, Value
from django.db.models.functions import Replace

from config.models import Environment
from config.timestamps import floor_to_second
from events.models import Event, EventQuerySet
from events.removal import format_count
from experiments.metrics.definition import definitions_of
from experiments.models import WHOLE, Experiment, Exposure
from experiments.results.expressions import UpperASCII
from experiments.results.values import exposed_users

_BLANKS = (" ", "\t", "\u00a0", "\u200b", "\ufeff")


@dataclass(frozen=True, slots=True)
class Unexposed:
    """Events that metrics count as outcomes, by users who were never exposed.

    `similar_users` of them have the id of an exposed user, but for blanks and upper or lower case. `reason` is a
    sentence on the likeliest reason; it is empty without such events.
    """

    events: int
    users: int
    similar_users: int
    reason: str


NOBODY_UNEXPOSED = Unexposed(0, 0, 0, "")


def find_unexposed(experiment: Experiment, received_at: datetime | None = None) -> Unexposed:
    """Return the outcomes of a started experiment, or those of one import, that count for nothing.

    Testers with a forced variant are left out. This takes seconds for a million users.
    """
    happened = _outcomes(experiment)
    if received_at is not None:
        happened = happened.filter(received_at=received_at)
    exposures = exposed_users(experiment)
    is_exposed = Exists(exposures.filter(user_id=OuterRef("user_id")))
    unexposed = happened.filter(~is_exposed).order_by()
    counts = unexposed.aggregate(events=Count("id"), users=Count("user_id", distinct=True))
    if not counts["events"]:
        return NOBODY_UNEXPOSED
    exposed_ids = exposures.annotate(folded=_folded()).values("folded")
    similar = (
        unexposed.annotate(folded=_folded())
        .filter(folded__in=exposed_ids)
        .aggregate(users=Count("user_id", distinct=True))["users"]
    )
    reason = _reason(experiment, similar, has_exposed=happened.filter(is_exposed).exists())
    return Unexposed(counts["events"], counts["users"], similar, reason)


def count_similar_ids(experiment: Experiment) -> int:
    """Return how many exposed users have the id of another one, but for blanks and upper or lower case."""
    ids = exposed_users(experiment).annotate(folded=_folded())
    alike = ids.values("folded").annotate(users=Count("user_id")).filter(users__gt=1)
    return sum(alike.values_list("users", flat=True))


def _outcomes(experiment: Experiment) -> EventQuerySet:
    assert experiment.started_at is not None  # noqa: S101 (nobody is exposed to a draft)
    names = {name for definition in definitions_of(experiment) for name in definition.outcomes}
    events = Event.objects.filter(environment=experiment.environment_id, name__in=names)
    since_start = events.referring_to("", *experiment.references()).counted_from(floor_to_second(experiment.started_at))
    until_stop = since_start if experiment.stopped_at is None else since_start.counted_until(experiment.stopped_at)
    return until_stop.exclude(user_id__in=experiment.forced_variants)


def _folded() -> Any:
    """Return an id without blanks, and with the letters a to z in upper case."""
    user_id: Any = F("user_id")
    without_blanks = reduce(lambda text, blank: Replace(text, Value(blank)), _BLANKS, user_id)
    return UpperASCII(without_blanks, output_field=TextField())


def _reason(experiment: Experiment, similar_users: int, *, has_exposed: bool) -> str:
    if similar_users:
        return (
            f"The ids of {similar_users:,} of these users differ from those of exposed users in blanks or case alone: "
            "send the same ids."
        )
    if not has_exposed:
        return (
            "No user with such an event was exposed, so events and exposures probably have different kinds of ids, for "
            "example those of accounts and of devices."
        )
    is_limited = any(phase["percentage"] < WHOLE or phase["conditions"] for phase in experiment.phases)
    if is_limited or experiment.group:
        return "The experiment admits a part of the users, and the others convert, too. Compare with that part."
    return "The application may not ask for the variant of these users, or not report their exposures."


# at the end of imports


def warn_of_events(*, environment: Environment, names: Collection[str], received_at: datetime, **_: Any) -> list[str]:
    """Return a sentence for each experiment with conversions in an import by users who were never exposed."""
    experiments = Experiment.objects.in_environment(environment).measured_by_events().order_by("key")
    concerned = (
        experiment
        for experiment in experiments
        if any(definition.outcomes & {*names} for definition in definitions_of(experiment))
    )
    return [warning for experiment in concerned for warning in _warn(experiment, received_at)]


def warn_of_exposures(experiment: Experiment) -> Iterator[str]:
    """Yield what looks wrong with an experiment after an import of exposures."""
    at_once = Exposure.objects.filter(experiment=experiment, is_in_several_variants=True)
    if users := at_once.filter(in_several_since=F("exposed_at")).count():
        yield (
            f"{format_count(users, 'user')} of {experiment.key} saw several variants at the same instant. Each counts "
            "for the variant that the hash gives the user, if it is one of these, and as a user in several variants."
        )
    yield from _warn(experiment)


def _warn(experiment: Experiment, received_at: datetime | None = None) -> Iterator[str]:
    found = find_unexposed(experiment, received_at)
    if found.events:
        events, users = format_count(found.events, "event"), format_count(found.users, "user")
        yield (
            f"{events} of the metrics of {experiment.key}, by {users} who were never exposed, do not count. "
            f"{found.reason}"
        )
