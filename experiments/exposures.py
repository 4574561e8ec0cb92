"""Who was exposed to which variant: one row a user and experiment, whoever says so and in whatever order it is heard.

The earliest exposure counts. What this service assigned stands for ever, for the user has been promised that variant.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import islice
from operator import attrgetter
from typing import Any
from uuid import UUID

from django.db.models import Q, QuerySet

from config.arrivals import CurrentArrival
from config.group_commit import Handler, reads, writes
from config.models import Environment
from events.models import Event
from events.properties import EXPERIMENT_ID, VARIANT
from events.rows import NewEvent
from experiments.attributes import kept_of, kept_of_event
from experiments.exposure_rows import Whose, assigned_variants, hold, insert_assigned, insert_new
from experiments.metrics.frozen import outcome_names
from experiments.models import Experiment, Exposure, Origin, Status

_EVENTS_AT_ONCE = 1000


def floor_to_second(moment: datetime) -> datetime:
    """Clients send whole seconds: what happened within the same one is not before it."""
    return moment.replace(microsecond=0)


def assign(
    experiment_id: UUID, user_id: str, variant: str, at: datetime, attributes: Mapping[str, Any] | None = None
) -> str:
    """Record that this service shows the variant, unless the user has one already; return the one that the user has.

    Once told it never changes, so who asks again needs no more than a read. Those who are new share a transaction.
    """
    stored = reads.submit(_STORED, (experiment_id, user_id))
    if stored is not None:
        return stored
    exposure = Exposure(
        experiment_id=experiment_id,
        user_id=user_id,
        variant=variant,
        exposed_at=at,
        origin=Origin.ASSIGNED,
        attributes=kept_of(attributes or {}),
    )
    return writes.submit(_ASSIGNMENTS, exposure)


def _find_assigned(users: Sequence[Whose]) -> list[str | None]:
    variants = assigned_variants(users)
    return [variants.get(user) for user in users]


def _record_assignments(exposures: Sequence[Exposure]) -> list[str]:
    first_of = {(each.experiment_id, each.user_id): each for each in reversed(exposures)}
    variants = insert_assigned([exposure for _, exposure in sorted(first_of.items())])
    return [variants[each.experiment_id, each.user_id] for each in exposures]


_STORED = Handler(_find_assigned, rank=1)
_ASSIGNMENTS = Handler(
    _record_assignments, rank=1, is_one_statement=True
)  # before the events, which report exposures too


Reports = dict[str, NewEvent]
"""What a batch of events says of one user in one experiment: for each variant, the event that saw it first."""


def take_turn(environment: Environment) -> None:
    """Wait until nobody else erases a user of this environment or starts an experiment, and have others wait.

    A start makes exposures of stored events, and an erasure takes both away: beside each other, neither would see what
    the other has not committed. It stands here because it is what makes exposures follow the events, for all who change
    them by what is stored already; who records new events needs no turn, for this lock lets rows refer to the
    environment. An erasure takes its turn before any other row. A start holds the change log by then, as does whoever
    changes the environment itself; no erasure asks for the log. SQLite has one writer at a time anyway.
    """
    Environment.objects.select_for_update(no_key=True).values_list("pk").get(pk=environment.pk)


def record_reported(*, environment: Environment, events: Sequence[NewEvent], **_: Any) -> None:
    """Store the exposures that newly stored events report, in their transaction.

    A variant that the experiment does not have is not stored; the results count such events as an anomaly.
    """
    _store(_collect(events, _experiments_named(environment, events)))


def record_reported_before_start(experiment: Experiment) -> None:
    """Store what events reported while a start was under way, or earlier in its second, in the start's transaction.

    Until then they named a draft. Whoever records one waits for this transaction (see `find_named`), so that
    every exposure is found either here or there.
    """
    assert experiment.started_at is not None  # noqa: S101 (it has just been started)
    named = Event.objects.filter(environment=experiment.environment).naming(*references(experiment))
    waiting = named.counted_from(floor_to_second(experiment.started_at)).filter(properties__has_key=VARIANT)
    reports = map(_as_reported, waiting.iterator())
    while events := list(islice(reports, _EVENTS_AT_ONCE)):
        _store(_collect(events, _by_reference([experiment])))


def find_named(environment: Environment, names: Collection[str]) -> list[Experiment]:
    """The experiments of these ids and keys. Read from the database: no exposure may miss a start.

    A draft is read once more with a lock, which waits for a start that is under way. Rows that refer to the experiment
    are stored beside it: their check would else wait for this transaction, which may be waiting for theirs.
    """
    if not names:
        return []
    ids = {UUID(name) for name in names if _is_uuid(name)}
    named = Experiment.objects.in_environment(environment).filter(Q(key__in=names) | Q(pk__in=ids))
    found = list(named)
    if any(experiment.status == Status.DRAFT for experiment in found):
        list(named.filter(status=Status.DRAFT).order_by("pk").select_for_update(no_key=True))
        found = list(named.all())  # a new query: the first has kept its rows
    return found


def references(experiment: Experiment) -> list[str]:
    """What events may call this experiment: its id, and its key, unless that is the id of another one."""
    if _is_uuid(experiment.key) and Experiment.objects.filter(pk=experiment.key).exists():
        return [str(experiment.pk)]
    return [str(experiment.pk), experiment.key]


def _as_reported(event: Event) -> NewEvent:
    return NewEvent(event.pk, event.user_id, event.name, event.timestamp, event.received_at, event.properties)


def _store(reported: dict[tuple[UUID, str], Reports]) -> None:
    while reported:
        new = insert_new([_exposure(*whose, reports) for whose, reports in reported.items()])
        known = {whose: reports for whose, reports in reported.items() if whose not in new}
        found = {(exposure.experiment_id, exposure.user_id): exposure for exposure in hold(known)}
        for whose, exposure in found.items():
            _reconcile(exposure, known[whose])
        # The others were there, and then erased. They are new now.
        reported = {whose: reports for whose, reports in known.items() if whose not in found}


def _exposure(experiment_id: UUID, user_id: str, reports: Reports) -> Exposure:
    first = _first(reports)
    return Exposure(
        experiment_id=experiment_id,
        user_id=user_id,
        variant=first.variant,
        exposed_at=first.counted_at,
        origin=Origin.REPORTED,
        is_in_several_variants=len(reports) > 1,
        attributes=kept_of_event(first.properties),
    )


def _first(reports: Reports) -> NewEvent:
    # Two variants at the same instant: the order of their keys decides, so that the order of arrival does not.
    return min(reports.values(), key=attrgetter("counted_at", "variant"))


def _collect(events: Iterable[NewEvent], experiments: dict[str, Experiment]) -> dict[tuple[UUID, str], Reports]:
    """The reports by experiment and user, sorted, so that concurrent batches lock rows in the same order."""
    reported: dict[tuple[UUID, str], Reports] = {}
    outcomes = {each.pk: outcome_names(each) for each in experiments.values() if each.started_at is not None}
    for event in events:
        experiment = experiments.get(event.experiment)
        variant = event.properties.get(VARIANT)
        if experiment is None or variant is None or event.name in outcomes.get(experiment.pk, ()):
            continue
        if _is_exposure(event, experiment, variant):
            reports = reported.setdefault((experiment.pk, event.user_id), {})
            reports[variant] = min(reports.get(variant, event), event, key=attrgetter("counted_at"))
    return dict(sorted(reported.items()))


def _is_exposure(event: NewEvent, experiment: Experiment, variant: str) -> bool:
    if variant not in experiment.variant_keys:
        return False
    if experiment.started_at is None or event.counted_at < floor_to_second(experiment.started_at):
        return False
    if experiment.frozen_at is not None:  # as its totals, and what is counted beside them, stand still
        return False
    return experiment.stopped_at is None or event.counted_at <= experiment.stopped_at


def _experiments_named(environment: Environment, events: Sequence[NewEvent]) -> dict[str, Experiment]:
    names = {event.properties[EXPERIMENT_ID] for event in events if VARIANT in event.properties and event.experiment}
    return _by_reference(find_named(environment, names))


def _by_reference(experiments: Sequence[Experiment]) -> dict[str, Experiment]:
    """Experiments by what events may call them; an id goes before a key that looks like it."""
    return {each.key: each for each in experiments} | {str(each.pk): each for each in experiments}


def _is_uuid(text: str) -> bool:
    try:
        return str(UUID(text)) == text
    except ValueError:
        return False


def _reconcile(exposure: Exposure, reports: Reports) -> None:
    """Bring a stored exposure in line with what was reported, whatever other batches do to it at the same time."""
    first = _first(reports)
    at, variant = first.counted_at, first.variant
    if reports.keys() == {exposure.variant} and exposure.exposed_at <= at:
        return  # nothing new, as for nearly every row of nearly every batch
    mine = Exposure.objects.filter(experiment_id=exposure.experiment_id, user_id=exposure.user_id)
    if reports.keys() - {exposure.variant} and not exposure.is_in_several_variants:
        _change(mine, is_in_several_variants=True)
    if (at, variant) < (exposure.exposed_at, exposure.variant):
        is_later = Q(exposed_at__gt=at) | Q(exposed_at=at, variant__gt=variant)
        reported = mine.filter(is_later, origin=Origin.REPORTED)
        _change(reported, variant=variant, exposed_at=at, attributes=kept_of_event(first.properties))
    seen = reports.get(exposure.variant)
    if seen is not None and seen.counted_at < exposure.exposed_at:
        # What was assigned begins earlier, and keeps what was known of the user then.
        assigned = mine.filter(variant=exposure.variant, exposed_at__gt=seen.counted_at)
        _change(assigned.filter(attributes__isnull=True), attributes=kept_of_event(seen.properties))
        _change(assigned, exposed_at=seen.counted_at)


def _change(exposures: QuerySet[Exposure], **values: Any) -> None:
    exposures.update(**values, arrival=CurrentArrival())
