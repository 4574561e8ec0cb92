"""Changes of many flags by hand: one write for all, or none."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from datetime import datetime

from config.change_log.writing import Actor, Basis, write_prepared
from config.models import Environment
from flags.changes import bulk
from flags.changes.bulk import FlagEntry
from flags.changes.documents import documents


def switch_flags(
    *, keys: Collection[str], enabled: bool, environment: Environment, actor: Actor, at: datetime, reason: str = ""
) -> None:
    """Switch flags on or off in an environment. Those that are so already stay unchanged. Raises ValidationFailed."""

    def switched(entry: FlagEntry) -> FlagEntry:
        state = {**entry.states[environment.key], "enabled": enabled}
        return replace(entry, states={environment.key: state})

    _write(keys, environment, switched, {"actor": actor, "at": at, "reason": reason})


def archive_flags(
    *,
    keys: Collection[str],
    environment: Environment,
    actor: Actor,
    at: datetime,
    reason: str = "",
    is_dry_run: bool = False,
) -> None:
    """Archive flags, which turns them off everywhere.

    It is refused as a whole if any of them is driven by an experiment, needed by another flag that stays, or on in
    another environment. Raises ValidationFailed. A dry run only checks.
    """
    common = {"actor": actor, "at": at, "reason": reason, "is_dry_run": is_dry_run}
    _write(keys, environment, lambda entry: replace(entry, is_archived=True), common)


def _write(
    keys: Collection[str],
    environment: Environment,
    change: Callable[[FlagEntry], FlagEntry],
    common: Mapping[str, object],
) -> None:
    def prepare(basis: Basis) -> bulk.Write:
        here = environment.key
        current = [bulk.entry_of(document, here, here) for _, document in documents(keys).values()]
        return bulk.prepare(basis, flags=[change(entry) for entry in current])

    write_prepared(prepare, **common)  # type: ignore[arg-type]  # the actor, the time, the reason and a dry run
