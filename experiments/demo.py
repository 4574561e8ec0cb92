"""Writing the demo into an empty database, all of it or nothing, by the functions that the API calls.

The change log shows when the demo was written. The experiments ran before that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction

from config.change_log.writing import Actor
from config.database.planning import gather_statistics
from config.errors import DomainError, ErrorCode
from config.models import Environment
from events.models import Event
from events.recording import NewEvent, new_id, record
from experiments.demo_shop import FLAGS, METRICS, SEGMENTS, TRIALS, DemoFlag, DemoSegment, Occurrence, Trial, draw
from experiments.lifecycle import changes
from experiments.metrics.changes import create_metric
from experiments.models import Experiment, Exposure, Metric
from flags.changes.flag_changes import archive_flag, create_flag, update_flag
from flags.changes.segment_changes import create_segment
from flags.models import Flag, Segment

_EVENTS_A_CALL = 1000


@dataclass(frozen=True, slots=True)
class Extent:
    """The size of the demo."""

    users: int
    events: int
    days: int
    seed: int


def is_empty() -> bool:
    return not any(model.objects.exists() for model in (Flag, Segment, Metric, Experiment, Event))


def fill(
    extent: Extent,
    *,
    production: Environment,
    staging: Environment,
    actor: Actor,
    now: datetime,
    on_progress: Callable[[int], object],
) -> None:
    """Write the demo. `on_progress` is called with the number of events of each chunk.

    Raises DomainError `in_use` unless the database is empty.
    """
    write: dict[str, Any] = {"actor": actor, "now": now, "reason": "Demo data"}
    begin = now - timedelta(days=extent.days)
    occurrences = draw(users=extent.users, events=extent.events, days=extent.days, seed=extent.seed)
    with transaction.atomic():
        if not is_empty():
            message = "The database is not empty; the demo needs one without flags, metrics, experiments and events."
            raise DomainError(ErrorCode.IN_USE, message)
        for segment in SEGMENTS:
            _write_segment(segment, **write)
        for flag in FLAGS:
            _write_flag(flag, production, staging, **write)
        for key, values in METRICS.items():
            create_metric(key=key, **values, **write)
        for trial in TRIALS:
            _write_trial(trial, production, begin, **write)
        for chunk in _chunks(occurrences):
            record([_event(occurrence, begin, now) for occurrence in chunk], production)
            on_progress(len(chunk))
        gather_statistics(Event, Exposure)


def _write_segment(segment: DemoSegment, **write: Any) -> None:
    create_segment(
        key=segment.key,
        description=segment.description,
        conditions=segment.conditions,
        user_ids=segment.user_ids,
        **write,
    )


def _to_the_minute(moment: datetime) -> datetime:
    """Return the time without seconds: forms show a fraction of a second as text."""
    return moment.replace(second=0, microsecond=0)


def _write_flag(flag: DemoFlag, production: Environment, staging: Environment, **write: Any) -> None:
    in_production, in_staging = flag.production, flag.staging
    create_flag(
        key=flag.key,
        description=flag.description,
        environment=production,
        enabled=in_production.enabled,
        rules=in_production.rules,
        expires_at=None if flag.expires_in is None else _to_the_minute(write["now"] + flag.expires_in),
        **flag.properties,
        **write,
    )
    staging_changes = {"enabled": in_staging.enabled, "rules": in_staging.rules}
    update_flag(key=flag.key, environment=staging, changes=staging_changes, **write)
    if flag.is_archived:
        archive_flag(key=flag.key, environment=production, **write)


def _write_trial(trial: Trial, environment: Environment, begin: datetime, **write: Any) -> None:
    span = write["now"] - begin
    which = {"key": trial.key, "environment": environment, **write}
    changes.create_experiment(
        description=trial.description,
        variants=[{"key": arm.key, "weight": arm.weight} for arm in trial.arms],
        metrics=[trial.metric, *trial.more],
        **trial.plan,
        **which,
    )
    if trial.starts is not None:
        changes.start_experiment(started_at=begin + span * trial.starts, **which)
    if trial.stops is not None:
        changes.stop_experiment(stopped_at=begin + span * trial.stops, **which)


def _event(occurrence: Occurrence, begin: datetime, at: datetime) -> NewEvent:
    timestamp = begin + timedelta(seconds=occurrence.second)
    return NewEvent(new_id(), occurrence.user_id, occurrence.name, timestamp, at, occurrence.properties)


def _chunks(occurrences: Sequence[Occurrence]) -> Iterator[Sequence[Occurrence]]:
    for start in range(0, len(occurrences), _EVENTS_A_CALL):
        yield occurrences[start : start + _EVENTS_A_CALL]
