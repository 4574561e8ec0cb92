"""Who was exposed to which variant: one row a user and experiment, whoever says so and in whatever order it is heard.

The earliest exposure counts. What this service assigned stands for ever, for the user has been promised that variant.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Any
from uuid import UUID

from django.db.models import Q

from config.database.group_commit import Handler, reads, writes
from config.models import Environment
from config.timestamps import floor_to_second
from events.models import Event, EventQuerySet
from events.properties import EXPERIMENT_ID, VARIANT
from events.recording.rows import NewEvent
from experiments.design.phases import number_at
from experiments.exposures.attributes import attributes_in, kept_of
from experiments.exposures.reports import Report, Reports, store
from experiments.exposures.storage import Stored, insert_assigned, stored_variants
from experiments.metrics.documents import outcome_names
from experiments.models import Experiment, Exposure, Origin, Status
from experiments.models.documents import forced_until
from experiments.models.experiment import is_uuid
from experiments.models.locks import ExposureKey, share_experiments
from flags.engine.assignment import compile_range

_EVENTS_AT_ONCE = 1000
_SECOND = timedelta(seconds=1)
_UNDER_WAY = timedelta(minutes=10)
"""No event is longer on its way into the database."""


def assign(
    experiment_id: UUID,
    user_id: str,
    variant: str,
    at: datetime,
    attributes: Mapping[str, Any] | None = None,
    phase: int = 1,
) -> str:
    """Record that this service shows the variant, unless the user has one already; return the one that the user has.

    Once told it never changes, so who asks again needs no more than `find_stored`.
    """
    exposure = assigned(experiment_id, user_id, variant, at, attributes, phase)
    return expose([exposure])[experiment_id, user_id]


def assigned(
    experiment_id: UUID, user_id: str, variant: str, at: datetime, attributes: Mapping[str, Any] | None, phase: int
) -> Exposure:
    """What is recorded of a user whom the configuration of a phase assigns."""
    return Exposure(
        experiment_id=experiment_id,
        user_id=user_id,
        variant=variant,
        exposed_at=at,
        origin=Origin.ASSIGNED,
        phase=phase,
        attributes=kept_of(attributes or {}),
    )


def find_stored(users: Sequence[ExposureKey]) -> dict[ExposureKey, Stored]:
    """The variants of those of the users who have one, whoever said so. Those who ask at one moment share a query."""
    return reads.submit(_STORED, users)


def expose(exposures: Sequence[Exposure]) -> dict[ExposureKey, str]:
    """Record what is assigned now, and return what the users have: who has a variant already keeps it.

    It is all committed or none; those who are new at one moment share a transaction.
    """
    return writes.submit(_ASSIGNMENTS, exposures)


def _find_stored(asked: Sequence[Sequence[ExposureKey]]) -> list[dict[ExposureKey, Stored]]:
    found = stored_variants([whose for users in asked for whose in users])
    return [{whose: found[whose] for whose in users if whose in found} for users in asked]


def _record_assignments(together: Sequence[Sequence[Exposure]]) -> list[dict[ExposureKey, str]]:
    first_of = {_whose(each): each for exposures in reversed(together) for each in exposures}
    variants = insert_assigned([exposure for _, exposure in sorted(first_of.items())])
    return [{_whose(each): variants[_whose(each)] for each in exposures} for exposures in together]


def _whose(exposure: Exposure) -> ExposureKey:
    return exposure.experiment_id, exposure.user_id


_STORED = Handler(_find_stored, rank=1)
_ASSIGNMENTS = Handler(
    _record_assignments, rank=1, is_one_statement=True
)  # before the events, which report exposures too


def record_reported(*, environment: Environment, events: Sequence[NewEvent], **_: Any) -> None:
    """Store the exposures that newly stored events report, in their transaction.

    A variant that the experiment does not have is not stored; the results count such events as an anomaly.
    """
    store(_collect(events, _experiments_named(environment, events)))


def record_imported(experiment: Experiment, exposures: Iterable[tuple[str, Report]]) -> int:
    """Store what an operator knows of users by their ids, in the caller's transaction; return how many are new.

    All of it is of the run of the experiment; none that is frozen may get any.
    """
    reported: dict[tuple[UUID, str], Reports] = {}
    for user_id, report in exposures:
        reports = reported.setdefault((experiment.pk, user_id), Reports(experiment.phases, Origin.IMPORTED))
        reports.add(report)
    return store(dict(sorted(reported.items())))


def record_reported_before_start(experiment: Experiment) -> None:
    """Store what events reported while a start was under way, or earlier in its second, in the start's transaction.

    Until then they named a draft. Whoever records one waits for this transaction (see `find_named`), so that
    every exposure is found either here or there.
    """
    _record_stored(experiment, _reporting(experiment), {})


def record_reported_meanwhile(experiment: Experiment, stopped_at: datetime) -> None:
    """Store what events reported while it was stopped, or frozen, in the transaction that opens it again.

    They were received after the stop, or recorded while it was under way, by the clock of another host. As with a
    start, every exposure is found either here or by whoever records it. What testers reported while they were testers
    is none, though they be none by now: it would not count either if the experiment had gone on.
    """
    reporting = _reporting(experiment).filter(received_at__gte=stopped_at - _UNDER_WAY)
    _record_stored(experiment, reporting, forced_until(experiment))


def _reporting(experiment: Experiment) -> EventQuerySet:
    """The events that report an exposure to it since its start."""
    assert experiment.started_at is not None  # noqa: S101 (callers have just started it, or opened it again)
    named = Event.objects.filter(environment=experiment.environment).naming(*experiment.references())
    return named.counted_from(floor_to_second(experiment.started_at)).filter(properties__has_key=VARIANT)


def _record_stored(experiment: Experiment, waiting: EventQuerySet, testers: Mapping[str, datetime]) -> None:
    """Store what they report, but for what was received from testers until the moments that are given."""
    told = (each for each in waiting.iterator() if not _is_within(testers.get(each.user_id), each.received_at))
    reports = map(_as_reported, told)
    while events := list(islice(reports, _EVENTS_AT_ONCE)):
        store(_collect(events, _by_reference([experiment])))


def _is_within(until: datetime | None, moment: datetime) -> bool:
    return until is not None and moment < until


def find_named(environment: Environment, names: Collection[str]) -> list[Experiment]:
    """Return the experiments with these ids and keys, read from the database: no exposure may miss a start.

    Drafts and stopped experiments are read once more with a lock, because they may be about to start or to reopen.
    """
    if not names:
        return []
    ids = {UUID(name) for name in names if is_uuid(name)}
    named = Experiment.objects.in_environment(environment).filter(Q(key__in=names) | Q(pk__in=ids))
    found = list(named)
    if any(experiment.status != Status.RUNNING for experiment in found):
        share_experiments(named)
        found = list(named.all())  # a new query: the first has kept its rows
    return found


def names_of_experiment(*, environment: Environment, reference: str, **_: Any) -> list[str]:
    """Return the names by which events may call the experiment of this id or key; none if there is no such one."""
    experiments = Experiment.objects.in_environment(environment)
    named = experiments.filter(pk=reference).first() if is_uuid(reference) else None
    named = named or experiments.filter(key=reference).first()
    return named.references() if named else []


def events_of_unknown_variants(experiment: Experiment) -> EventQuerySet:
    """The events that report a variant which the experiment does not have."""
    naming = Event.objects.filter(environment=experiment.environment_id).naming(*experiment.references())
    reporting = naming.filter(properties__has_key=VARIANT)
    known = Q()
    for key in experiment.variant_keys:
        known |= Q(**{f"properties__{VARIANT}": key})
    return reporting.exclude(name__in=outcome_names(experiment)).exclude(known)


def _as_reported(event: Event) -> NewEvent:
    return NewEvent(event.pk, event.user_id, event.name, event.timestamp, event.received_at, event.properties)


def _collect(events: Iterable[NewEvent], experiments: dict[str, Experiment]) -> dict[tuple[UUID, str], Reports]:
    """The reports by experiment and user, sorted, so that concurrent batches lock rows in the same order."""
    reported: dict[tuple[UUID, str], Reports] = {}
    started = {each.pk: _Started(each) for each in experiments.values() if each.started_at is not None}
    for event in events:
        experiment = experiments.get(event.experiment)
        variant = event.properties.get(VARIANT)
        if experiment is None or variant is None or experiment.pk not in started:
            continue
        if not started[experiment.pk].counts(event, variant):
            continue
        reports = reported.setdefault((experiment.pk, event.user_id), Reports(experiment.phases))
        if started[experiment.pk].takes_in(event):
            reports.add(Report(variant, event.counted_at, attributes_in(event.properties)))
        else:
            reports.add_seen(variant, event.counted_at)
    return dict(sorted(reported.items()))


class _Started:
    """A started experiment, of which it is asked for many events what they report."""

    def __init__(self, experiment: Experiment) -> None:
        assert experiment.started_at is not None  # noqa: S101 (nobody is exposed to a draft)
        self._experiment = experiment
        self._start = floor_to_second(experiment.started_at)
        self._outcomes = outcome_names(experiment)
        self._ranges = [
            compile_range(experiment.key, each["percentage"], experiment.group) for each in experiment.phases
        ]

    def counts(self, event: NewEvent, variant: str) -> bool:
        """Whether it tells that a user saw a variant while the experiment ran."""
        experiment = self._experiment
        if variant not in experiment.variant_keys or event.name in self._outcomes:
            return False
        if event.user_id in experiment.forced_variants or event.counted_at < self._start:
            return False
        if experiment.frozen_at is not None:  # as its totals, and what is counted beside them, stand still
            return False
        return experiment.stopped_at is None or event.counted_at <= experiment.stopped_at

    def takes_in(self, event: NewEvent) -> bool:
        """Whether a phase of that second does, as far as the hash says; who meets the conditions, no event tells.

        Whom it does not take in is shown what the control is, and many a client puts that into its events.
        """
        if not any(self._ranges):
            return True
        moments = (event.counted_at, event.counted_at + _SECOND)
        first, last = (number_at(self._experiment.phases, moment) for moment in moments)
        return any(is_in is None or is_in(event.user_id) for is_in in self._ranges[first - 1 : last])


def _experiments_named(environment: Environment, events: Sequence[NewEvent]) -> dict[str, Experiment]:
    names = {event.properties[EXPERIMENT_ID] for event in events if VARIANT in event.properties and event.experiment}
    return _by_reference(find_named(environment, names))


def _by_reference(experiments: Sequence[Experiment]) -> dict[str, Experiment]:
    """Experiments by what events may call them; an id goes before a key that looks like it."""
    return {each.key: each for each in experiments} | {str(each.pk): each for each in experiments}
