"""Since when the flag that an experiment drives has been off, so that no user sees a variant."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from config.change_log.entries import filter_visible
from config.documents import Document
from config.models import Change, Environment
from config.timestamps import parse_timestamp
from experiments.models import Experiment, Status
from experiments.stats.types import FlagOff
from flags.changes.flag_changes import KIND
from flags.changes.properties import OFF
from flags.models import FlagState


def find_flag_off(experiment: Experiment, at: datetime, *, is_being_stopped: bool = False) -> FlagOff | None:
    """Return since when the flag has been off, or was off when the experiment stopped; None otherwise.

    `is_being_stopped` reads the flag although this transaction has stopped the experiment already.
    """
    if not experiment.flag or experiment.started_at is None:
        return None
    if experiment.status == Status.RUNNING or is_being_stopped:
        since = read_off_since(experiment)
    else:
        since = _stored_off_since(experiment)
    if since is None:
        return None
    until = min(filter(None, (at, experiment.stopped_at)))
    return FlagOff(experiment.flag["key"], since, max(since, until))


def read_off_since(experiment: Experiment) -> datetime | None:
    """Return when the flag of a running experiment was switched off; None if it is on, or if there is no flag.

    A flag that was off before the start counts as off since the start.
    """
    if not experiment.flag or experiment.started_at is None:
        return None
    key = experiment.flag["key"]
    if FlagState.objects.filter(flag__key=key, environment=experiment.environment_id, enabled=True).exists():
        return None
    environment = experiment.environment
    changes = filter_visible(Change.objects.of_key(KIND, key), environment.key).filter(at__gte=experiment.started_at)
    # The newest change is nearly always the one that switched the flag off.
    rows = changes.values_list("at", "before").iterator(chunk_size=10)
    return next((at for at, before in rows if _is_on(before, environment.key)), experiment.started_at)


def off_flags(experiments: Iterable[Experiment], environment: Environment) -> set[str]:
    """Return the keys of those flags that running experiments of the environment drive although they are off."""
    keys = {row.flag["key"] for row in experiments if row.flag and row.status == Status.RUNNING}
    rows = FlagState.objects.filter(flag__key__in=keys, environment=environment, enabled=True)
    return keys.difference(rows.values_list("flag__key", flat=True)) if keys else keys


def _stored_off_since(experiment: Experiment) -> datetime | None:
    """Return what was stored at the stop."""
    since = (experiment.decision or {}).get("flagOffSince")
    return parse_timestamp(since) if since else None


def _is_on(document: Document | None, environment_key: str) -> bool:
    return document is not None and bool(document["states"].get(environment_key, OFF)["enabled"])
