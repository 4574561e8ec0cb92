"""Starting and stopping experiments at a time in the past, to import experiments that ran elsewhere.

Only commands offer this. In the API, everything happens at the time of the request.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from config.change_log.writing import Actor
from config.errors import Detail, DetailCode, ValidationFailed
from config.models import Environment
from config.timestamps import format_timestamp, parse_timestamp
from experiments.lifecycle.changes import start_experiment
from experiments.lifecycle.decisions import stop_experiment
from experiments.models import Experiment
from experiments.models.documents import get_experiment

FIELD = "--at"
COUNTING_FIELD = "--keep-counting"
"""The options of the commands, which refusals name."""
MAX_PAST = timedelta(days=3_650)


def start_at(
    *, key: str, environment: Environment, started_at: datetime | None, actor: Actor, now: datetime, reason: str = ""
) -> Experiment:
    """Start a draft now, or at a time in the last ten years. Raises as `start_experiment` does."""
    _check(started_at, now)
    if started_at is not None and started_at < now - MAX_PAST:
        _refuse(f"Must be within the last {MAX_PAST.days:,} days.")
    return start_experiment(
        key=key, environment=environment, actor=actor, now=now, started_at=started_at, reason=reason
    )


def stop_at(
    *,
    key: str,
    environment: Environment,
    stopped_at: datetime | None,
    actor: Actor,
    now: datetime,
    reason: str = "",
    decision: Mapping[str, Any] | None = None,
) -> Experiment:
    """Stop a running experiment now, or at a time since the start of its last phase.

    `decision` has further arguments of `stop_experiment`. Raises as `stop_experiment` does.
    """
    _check(stopped_at, now)
    if stopped_at is not None and (decision or {}).get("keep_counting"):
        # A fixed analysis may have been read after that time, with users who came after it.
        message = f"Must be left out with {FIELD}: windows go on counting after a stop now."
        raise ValidationFailed([Detail(COUNTING_FIELD, DetailCode.INVALID_VALUE, message)])
    experiment = get_experiment(key, environment)
    begun = [parse_timestamp(phase["startedAt"]) for phase in experiment.phases]
    if begun and stopped_at is not None and stopped_at < begun[-1]:
        _refuse(f"Must not be before the start of the last phase, {format_timestamp(begun[-1])}.")
    return stop_experiment(
        key=key, environment=environment, actor=actor, now=now, stopped_at=stopped_at, reason=reason, **(decision or {})
    )


def _check(time: datetime | None, now: datetime) -> None:
    if time is not None and time > now:
        _refuse("Must not lie in the future.")


def _refuse(message: str) -> None:
    raise ValidationFailed([Detail(FIELD, DetailCode.OUT_OF_RANGE, message)])
