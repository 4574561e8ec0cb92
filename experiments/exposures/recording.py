"""Recording exposures: one row per user and experiment, in whatever order assignments and reports arrive.

The earliest exposure counts. A variant that this service has assigned never changes, because the user has seen it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cached_property, partial
from itertools import islice
from typing import Any
from uuid import UUID

from django.db import connection, transaction
from django.db.models import Exists, OuterRef, Q
from django.utils import timezone

from config.database.group_commit import Handler, reads, writes
from config.errors import DomainError, ErrorCode
from config.models import Environment
from config.monitoring import metrics
from config.timestamps import floor_to_second
from events.models import Event, EventQuerySet
from events.properties import EXPERIMENT_ID, VARIANT, reference_of
from events.recording import NewEvent, find_stored_events
from experiments.exposures.attributes import attributes_in, storable_attributes
from experiments.exposures.reports import Report, Reports, ReportsByUser, store_reports
from experiments.exposures.storage import ExposureRow, StoredVariant, insert_assigned, read_variants
from experiments.metrics.definition import outcome_names
from experiments.models import Experiment, Exposure, Origin, Status
from experiments.models.documents import forced_until
from experiments.models.experiment import is_uuid
from experiments.models.locks import ExposureKey, share_experiments
from experiments.models.phases import number_in, starts_of
from flags.engine.assignment import compile_range
from flags.engine.bucketing import bucket, compile_split

_EVENTS_AT_ONCE = 1000
_DECISIVE = (
    *("key", "environment_id", "status", "started_at", "stopped_at", "frozen_at", "forced_variants"),
    *("variants", "group", "phases", "metrics", "definitions"),
)
"""The columns that decide which events report exposures. Reading the others would take as long again."""
_SECOND = timedelta(seconds=1)
_UNDER_WAY = timedelta(minutes=10)
"""The longest time between the receipt of an event and its commit."""
_START_IS_FINAL_AFTER = timedelta(hours=1)
"""A start can be undone for ten minutes. The clock of another host may be slow."""


def assign(
    experiment_id: UUID,
    user_id: str,
    variant: str,
    exposed_at: datetime,
    attributes: Mapping[str, Any] | None = None,
    phase: int = 1,
) -> str:
    """Store that a user without a variant gets this one. Return the variant that the user has then.

    That variant is final, so `find_variants` answers every later question.
    """
    exposure = assigned_exposure(experiment_id, user_id, variant, exposed_at, attributes, phase)
    variants = store_exposures([exposure])
    if not variants:
        raise DomainError(ErrorCode.EXPERIMENT_NOT_RUNNING, "The experiment was just stopped, or its start undone.")
    return variants[experiment_id, user_id]


def assigned_exposure(
    experiment_id: UUID,
    user_id: str,
    variant: str,
    exposed_at: datetime,
    attributes: Mapping[str, Any] | None,
    phase: int,
) -> ExposureRow:
    """Return the exposure of a user who was assigned in a phase."""
    return ExposureRow(
        experiment_id=experiment_id,
        user_id=user_id,
        variant=variant,
        exposed_at=exposed_at,
        origin=Origin.ASSIGNED,
        is_in_several_variants=False,
        in_several_since=None,
        phase=phase,
        attributes=storable_attributes(attributes or {}),
    )


def find_variants(users: Sequence[ExposureKey]) -> dict[ExposureKey, StoredVariant]:
    """Return the stored variants of the users who have one. Simultaneous callers share a query."""
    return reads.submit(_VARIANTS, users)


def store_exposures(exposures: Sequence[ExposureRow]) -> dict[ExposureKey, str]:
    """Store exposures, and return the variant of each user. Users with an exposure keep it.

    Exposures after a stop are left out. The others are committed all together or not at all. Simultaneous callers share
    a transaction.
    """
    variants = writes.submit(_ASSIGNMENTS, exposures)
    metrics.exposures_recorded.add(len(variants), "assignment")
    return variants


def _find_variants(asked: Sequence[Sequence[ExposureKey]]) -> list[dict[ExposureKey, StoredVariant]]:
    variants = read_variants([key for keys in asked for key in keys])
    return [{key: variants[key] for key in keys if key in variants} for keys in asked]


def _record_assignments(together: Sequence[Sequence[ExposureRow]]) -> list[dict[ExposureKey, str]]:
    first_of = {_key(exposure): exposure for exposures in reversed(together) for exposure in exposures}
    variants = insert_assigned([exposure for _, exposure in sorted(first_of.items())])
    return [{key: variants[key] for key in map(_key, exposures) if key in variants} for exposures in together]


def _key(exposure: ExposureRow) -> ExposureKey:
    return exposure.experiment_id, exposure.user_id


_VARIANTS = Handler(_find_variants, rank=1)
_ASSIGNMENTS = Handler(
    _record_assignments,
    rank=1,  # before the events, which report exposures too
    is_one_statement=connection.vendor == "postgresql",  # on SQLite, only transactions wait in the line of writers
)


def record_reported(*, environment: Environment, events: Sequence[NewEvent], **_: Any) -> None:
    """Store the exposures that new events report, in the transaction of these events.

    Reports of a variant that the experiment does not have are not stored. Reports of keys of scope `client` are not
    stored if the hash does not give the user that variant. Results show how many there were of both.
    """
    experiments = _experiments_named(environment, events)
    if number := _store(_collect(events, experiments), experiments.values()):
        transaction.on_commit(partial(metrics.exposures_recorded.add, number, "report"))


def record_imported(experiment: Experiment, exposures: Iterable[tuple[str, Report]]) -> int:
    """Store imported exposures in the caller's transaction, and return how many users are new.

    Callers have checked that the exposures are between start and stop, and that the results are not frozen.
    """
    started = _Started(experiment)
    by_user: dict[str, Reports] = {}
    for user_id, report in exposures:
        if user_id not in by_user:
            by_user[user_id] = Reports(user_id, started.starts, started.order, Origin.IMPORTED)
        by_user[user_id].add(report)
    return _store({experiment.pk: dict(sorted(by_user.items()))}, [experiment], are_many_changing=True)


def record_reported_before_start(experiment: Experiment) -> None:
    """Store the exposures that events reported during the start, or before it in its second.

    It runs in the transaction of the start. Such an event named a draft when it was recorded, and its recording waits
    for the start (see `find_named`). So each exposure is found either here or there.
    """
    _record_stored(experiment, _reporting(experiment), {})


def record_reported_meanwhile(experiment: Experiment, stopped_at: datetime) -> None:
    """Store the exposures that events reported while the experiment was stopped, in the transaction of its reopening.

    These events were received after the stop, or by the clock of another host during the stop. As at a start, each
    exposure is found either here or by the recording of its event. Reports of users whose variant was forced at that
    time are left out, even if it is not forced any more: without the stop, they would not have counted either.
    """
    reporting = _reporting(experiment).filter(received_at__gte=stopped_at - _UNDER_WAY)
    _record_stored(experiment, reporting, forced_until(experiment))


def _reporting(experiment: Experiment) -> EventQuerySet:
    """Return the events since the start that name the experiment and a variant."""
    assert experiment.started_at is not None  # noqa: S101 (callers have just started or reopened it)
    named = Event.objects.filter(environment=experiment.environment).referring_to(*experiment.references())
    return named.counted_from(floor_to_second(experiment.started_at)).filter(properties__has_key=VARIANT)


def _record_stored(experiment: Experiment, waiting: EventQuerySet, forced_until: Mapping[str, datetime]) -> None:
    """Store what stored events report, except events received while the variant of their user was forced."""
    counting = (event for event in waiting.iterator() if not _was_forced(forced_until.get(event.user_id), event))
    new_events = map(_as_new_event, counting)
    while events := list(islice(new_events, _EVENTS_AT_ONCE)):
        _store(_collect(events, _by_reference([experiment])), [experiment])


def _was_forced(until: datetime | None, event: Event) -> bool:
    return until is not None and event.received_at < until


def find_named(environment: Environment, names: Collection[str]) -> list[Experiment]:
    """Return the experiments with these ids and keys from the database, so that no exposure misses a start.

    Drafts and stopped experiments may be about to start or reopen, and young starts may be about to be undone. If there
    are any, all are locked and read once more.
    """
    if not names:
        return []
    called = Q(key__in=names)
    if ids := {UUID(name) for name in names if is_uuid(name)}:
        called |= Q(pk__in=ids)
    named = Experiment.objects.filter(called, environment=environment).only(*_DECISIVE)
    experiments = list(named)
    young = timezone.now() - _START_IS_FINAL_AFTER
    if any(_may_change_soon(experiment, young) for experiment in experiments):
        share_experiments(named, young)
        experiments = list(named.all())  # a new query, because the first has cached its rows
    return experiments


def _may_change_soon(experiment: Experiment, young: datetime) -> bool:
    return experiment.status != Status.RUNNING or experiment.started_at is None or experiment.started_at >= young


def names_of_experiment(*, environment: Environment, reference: str, **_: Any) -> list[str]:
    """Return the names by which events may call the experiment with this id or key; none if there is none."""
    experiments = Experiment.objects.in_environment(environment)
    named = experiments.filter(pk=reference).first() if is_uuid(reference) else None
    named = named or experiments.filter(key=reference).first()
    return named.references() if named else []


def events_of_unknown_variants(experiment: Experiment) -> EventQuerySet:
    """Return the events between start and stop that report a variant which the experiment does not have.

    For a draft, these are all such events.
    """
    naming = Event.objects.filter(environment=experiment.environment_id).referring_to(*experiment.references())
    reporting = naming.filter(properties__has_key=VARIANT)
    if experiment.started_at is not None:
        reporting = reporting.counted_from(floor_to_second(experiment.started_at))
    if experiment.stopped_at is not None:
        reporting = reporting.counted_until(experiment.stopped_at)
    has_variant = Q()
    for key in experiment.variant_keys:
        has_variant |= Q(**{f"properties__{VARIANT}": key})
    return reporting.exclude(name__in=outcome_names(experiment)).exclude(has_variant)


def doubted_reports(experiment: Experiment) -> EventQuerySet:
    """Return the reports of client keys until the stop whose variant the hash does not give.

    Reports of the variant that the user has anyway, stored or forced, are left out.
    """
    naming = Event.objects.filter(environment=experiment.environment_id, is_doubted=True)
    reporting = naming.referring_to(*experiment.references()).exclude(user_id__in=experiment.forced_variants)
    if experiment.stopped_at is not None:
        reporting = reporting.counted_until(experiment.stopped_at)
    same = Exposure.objects.filter(experiment=experiment, user_id=OuterRef("user_id"), variant=OuterRef("variant"))
    return reporting.exclude(Exists(same))


def _as_new_event(event: Event) -> NewEvent:
    is_client_report = event.is_doubted is not None
    return NewEvent(
        event.pk, event.user_id, event.name, event.timestamp, event.received_at, event.properties, is_client_report
    )


def _collect(events: Iterable[NewEvent], experiments: dict[str, Experiment]) -> ReportsByUser:
    """Return the reports by experiment and user, sorted so that concurrent batches lock rows in the same order.

    Doubted reports are left out, and marked in the database.
    """
    reported: dict[_Started, dict[str, Reports]] = {}
    doubted: list[NewEvent] = []
    started = _StartedByName(experiments)
    for event in events:
        properties = event.properties
        variant = properties.get(VARIANT)
        if variant is None or (experiment := started[properties.get(EXPERIMENT_ID, "")]) is None:
            continue
        user_id, counted_at = event.user_id, event.counted_at
        if not experiment.counts(event, variant, counted_at):
            continue
        if event.is_client_report and experiment.doubts(user_id, variant, counted_at):
            doubted.append(event)
            continue
        by_user = reported.setdefault(experiment, {})
        reports = by_user.get(user_id)
        if reports is None:
            reports = by_user[user_id] = Reports(user_id, experiment.starts, experiment.order)
        if experiment.includes(user_id, counted_at):
            reports.add(Report(variant, counted_at, attributes_in(properties)))
        else:
            reports.add_seen(variant, counted_at)
    if doubted:
        find_stored_events(doubted).update(is_doubted=True)
    by_experiment = {experiment.pk: dict(sorted(by_user.items())) for experiment, by_user in reported.items()}
    return dict(sorted(by_experiment.items()))


def _store(reported: ReportsByUser, experiments: Iterable[Experiment], *, are_many_changing: bool = False) -> int:
    """Store reports, with what users of new or earlier exposures saw while outside of the experiment.

    A sight from outside is no exposure, so nothing was stored if it came before the exposure.
    """
    for experiment in {experiment.pk: experiment for experiment in experiments}.values():
        if len(experiment.phases) > 1:  # in one phase, a user is either in or out
            by_user = reported.get(experiment.pk, {})
            _add_seen_outside(experiment, {user_id: each for user_id, each in by_user.items() if each.by_variant})
    return store_reports(reported, are_many_changing=are_many_changing)


def _add_seen_outside(experiment: Experiment, reported: Mapping[str, Reports]) -> None:
    started = _Started(experiment)
    if not reported or not started.may_leave_out:
        return
    for event in map(_as_new_event, _reporting(experiment).filter(user_id__in=list(reported)).iterator()):
        variant, counted_at = event.properties[VARIANT], event.counted_at
        if not started.counts(event, variant, counted_at) or started.includes(event.user_id, counted_at):
            continue
        if not event.is_client_report or not started.doubts(event.user_id, variant, counted_at):
            reported[event.user_id].add_seen(variant, counted_at)


class _Started:
    """A started experiment, prepared for questions about many events."""

    def __init__(self, experiment: Experiment) -> None:
        assert experiment.started_at is not None  # noqa: S101 (drafts have no exposures)
        self._experiment = experiment
        self.pk = experiment.pk
        self._variant_keys = experiment.variant_keys
        self.starts = starts_of(experiment.phases)
        self._start = floor_to_second(experiment.started_at)
        self._outcomes = outcome_names(experiment)
        self._ranges = [
            compile_range(experiment.key, phase["percentage"], experiment.group) for phase in experiment.phases
        ]
        self.may_leave_out = any(self._ranges)
        """Whether the hash leaves any users out."""

    def counts(self, event: NewEvent, variant: str, counted_at: datetime) -> bool:
        """Return whether the event reports that a user saw a variant while the experiment ran."""
        experiment = self._experiment
        if variant not in self._variant_keys or event.name in self._outcomes:
            return False
        if event.user_id in experiment.forced_variants or counted_at < self._start:
            return False
        if experiment.frozen_at is not None:  # frozen results and their counts do not change
            return False
        return experiment.stopped_at is None or counted_at <= experiment.stopped_at

    def includes(self, user_id: str, counted_at: datetime) -> bool:
        """Return whether the hash puts the user into a phase of the second of the event.

        Events do not say whether the user met the conditions. Users outside of the experiment see the control, and many
        clients report that.
        """
        if not self.may_leave_out:
            return True
        first, last = self._phases_at(counted_at)
        return any(is_in is None or is_in(user_id) for is_in in self._ranges[first - 1 : last])

    def doubts(self, user_id: str, variant: str, counted_at: datetime) -> bool:
        """Return whether a client reports a variant that no phase until the event gives the user.

        Anybody can read a client key and report any variant. Conditions cannot be checked, because events have no
        attributes. Users outside of the experiment see the control.
        """
        if variant == self._variant_keys[0] and not self.includes(user_id, counted_at):
            return False
        last = 1 if len(self.starts) == 1 else self._phases_at(counted_at)[1]
        for is_in, split in zip(self._ranges[:last], self._splits, strict=False):
            if (is_in is None or is_in(user_id)) and split(user_id) == variant:
                return False
        return True

    def order(self, user_id: str, variant: str, counted_at: datetime) -> tuple[bool, int, str]:
        """Order the variants that a user saw at one instant: the one that the hash gives, then the others by a hash.

        In the order of their keys, all such users would come to the first variant, as if the split were wrong.
        """
        split = self._splits[number_in(self.starts, counted_at) - 1]
        return split(user_id) != variant, bucket(f"{self._experiment.key}:{variant}", user_id), variant

    def _phases_at(self, counted_at: datetime) -> tuple[int, int]:
        """Return the first and the last phase of the second of an event."""
        return number_in(self.starts, counted_at), number_in(self.starts, counted_at + _SECOND)

    @cached_property
    def _splits(self) -> Sequence[Callable[[str], str]]:
        key, phases = self._experiment.key, self._experiment.phases
        return [compile_split([(each["key"], each["weight"]) for each in phase["variants"]], key) for phase in phases]


class _StartedByName(dict[str, _Started | None]):
    """Started experiments by id and key, in the words of the events. Unknown names map to None."""

    def __init__(self, experiments: Mapping[str, Experiment]) -> None:
        by_id = {each.pk: _Started(each) for each in experiments.values() if each.started_at is not None}
        self._by_reference = {reference: by_id.get(each.pk) for reference, each in experiments.items()}

    def __missing__(self, name: str) -> _Started | None:
        self[name] = started = self._by_reference.get(reference_of(name))
        return started


def _experiments_named(environment: Environment, events: Sequence[NewEvent]) -> dict[str, Experiment]:
    names = {event.properties.get(EXPERIMENT_ID, "") for event in events if VARIANT in event.properties}
    return _by_reference(find_named(environment, names - {""}))


def _by_reference(experiments: Sequence[Experiment]) -> dict[str, Experiment]:
    """Return experiments by key and id. An id wins over an equal key of another experiment."""
    by_key = {reference_of(experiment.key): experiment for experiment in experiments}
    return by_key | {str(experiment.pk): experiment for experiment in experiments}
