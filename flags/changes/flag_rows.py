"""The rows of a flag, read as JSON and written. Every write of a flag is a `FlagChange`.

`flag_changes` and `bulk` check what is written.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import F

from config.change_log.writing import NewChange, Writing
from config.database import insertion
from config.documents import Document
from config.models import Environment
from config.slugs import is_key
from flags.changes.properties import Values, common_as_json
from flags.models import Flag, FlagState, FlagTag

KIND = "flag"
States = Mapping[str, Document]
"""Whether the flag is on, and its rules, by the key of the environment."""

_OF_A_STATE = ("enabled", "rules")
_FLAG_COLUMNS = tuple(field.attname for field in Flag._meta.concrete_fields)
_STATE_COLUMNS = ("flag_id", "environment_id", "enabled", "rules", "updated_at", "version")
_MAX_KEYS = 10_000
"""In one query. SQLite limits the number of parameters."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """The time of a write, and the revision of its change."""

    at: datetime
    version: int


class Origin(NamedTuple):
    """The identity of a deleted flag or segment that an undo restores."""

    id: UUID
    created_at: datetime


@dataclass(frozen=True, slots=True)
class FlagChange:
    """A flag as it will be.

    `common` and `states` are the values to write: all of them if the flag is new, otherwise those that differ.
    """

    flag: Flag
    common: Values
    states: States
    stamp: Stamp
    before: Document | None
    after: Document

    @property
    def environment(self) -> str:
        """The key of the only environment that changes, or "" if shared properties or several environments change."""
        return next(iter(self.states)) if len(self.states) == 1 and not self.common else ""

    @property
    def log_entry(self) -> NewChange:
        return NewChange(KIND, self.flag.pk, self.flag.key, self.before, self.after, self.environment)

    def save(self, environments: Mapping[str, Environment]) -> None:
        """Save the rows that differ. The caller checks them afterwards, and then calls `append_to`."""
        if self.before and "tags" in self.common:
            FlagTag.objects.filter(flag_id=self.flag.pk).delete()
        insertion.execute_all(statements([self], environments))

    def append_to(self, log: Writing) -> None:
        log.append_prepared(log.prepare([self.log_entry]))


def new_flag(key: str, common: Values, states: States, stamp: Stamp, origin: Origin | None = None) -> FlagChange:
    columns = {name: value for name, value in common.items() if name != "tags"}
    flag = Flag(key=key, created_at=stamp.at, common_updated_at=stamp.at, common_version=stamp.version, **columns)
    flag.pk, flag.created_at = origin or (flag.pk, flag.created_at)
    after = with_states({**common_as_json(flag, common.get("tags", [])), "states": {}}, states)
    return FlagChange(flag, common, states, stamp, None, after)


def change_flag(flag: Flag, before: Document, common: Values, states: States, stamp: Stamp) -> FlagChange:
    """Set the values and states that differ, and return the change. `before` is the flag as JSON."""
    after = before
    if common or len(states) > 1:  # the change concerns all environments
        columns = {name: value for name, value in common.items() if name != "tags"}
        for name, value in {**columns, "common_updated_at": stamp.at, "common_version": stamp.version}.items():
            setattr(flag, name, value)
    if common:
        tags = common.get("tags", before.get("tags", []))
        after = {**common_as_json(flag, tags), "states": before["states"]}
    return FlagChange(flag, common, states, stamp, before, with_states(after, states))


def statements(
    changes: Sequence[FlagChange], environments: Mapping[str, Environment], make: insertion.Make = insertion.prepare
) -> Iterator[insertion.Statement]:
    """Return the statements that save these changes. The caller deletes replaced tags first."""
    flags = [[getattr(change.flag, name) for name in _FLAG_COLUMNS] for change in changes if not change.environment]
    yield from make(Flag, _FLAG_COLUMNS, flags, insertion.replacing(("id",), _FLAG_COLUMNS))
    tags = [(change.flag.pk, name) for change in changes for name in change.common.get("tags", ())]
    yield from make(FlagTag, ("flag_id", "name"), tags, "")
    states = [
        (change.flag.pk, environments[key].pk, state["enabled"], state["rules"], change.stamp.at, change.stamp.version)
        for change in changes
        for key, state in change.states.items()
    ]
    then = insertion.replacing(("flag_id", "environment_id"), _STATE_COLUMNS)
    yield from make(FlagState, _STATE_COLUMNS, states, then)


def read_flag(key: str) -> tuple[Flag, Document] | None:
    """Return a flag and its JSON, with two queries."""
    states = {"enabled": F("states__enabled"), "stored_rules": F("states__rules")}
    rows: list[Any] = list(Flag.objects.filter(key=key).annotate(environment=F("states__environment__key"), **states))
    if not rows:
        return None
    by_environment = {row.environment: {"enabled": row.enabled, "rules": row.rules} for row in rows if row.environment}
    flag: Flag = rows[0]
    return flag, _as_json(flag, flag.tags, dict(sorted(by_environment.items())))


def flag_as_json(flag: Flag) -> Document:
    """Return the whole flag with its state in every environment, as the change log stores it."""
    rows = FlagState.objects.filter(flag=flag).order_by("environment__key")
    states = rows.values_list("environment__key", "enabled", "rules")
    by_environment = {key: {"enabled": enabled, "rules": rules} for key, enabled, rules in states}
    return _as_json(flag, flag.tags, by_environment)


def flags_as_json(keys: Collection[str] | None = None) -> dict[str, tuple[Flag, Document]]:
    """Return the flags with these keys, or all flags, each with its JSON, in the order of their keys. It takes three
    queries.
    """
    flags, rows, tag_rows = Flag.objects.all(), FlagState.objects.all(), FlagTag.objects.all()
    wanted = None if keys is None else {key for key in keys if is_key(key)}
    if wanted is not None and len(wanted) <= _MAX_KEYS:
        flags = flags.filter(key__in=wanted)
        rows, tag_rows = rows.filter(flag__key__in=wanted), tag_rows.filter(flag__key__in=wanted)
    tags: dict[UUID, list[str]] = defaultdict(list)
    for flag_id, name in tag_rows.order_by("pk").values_list("flag_id", "name"):
        tags[flag_id].append(name)
    states: dict[UUID, dict[str, Document]] = defaultdict(dict)
    ordered = rows.order_by("environment__key").values_list("flag_id", "environment__key", "enabled", "rules")
    for flag_id, environment_key, enabled, rules in ordered:
        states[flag_id][environment_key] = {"enabled": enabled, "rules": rules}
    return {
        flag.key: (flag, _as_json(flag, tags[flag.pk], states[flag.pk]))
        for flag in flags.order_by("key")
        if wanted is None or flag.key in wanted
    }


def with_state(as_json: Document, environment_key: str, state: Document) -> Document:
    """Return the JSON of a flag with another state in one environment."""
    return with_states(as_json, {environment_key: state})


def with_states(as_json: Document, states: States) -> Document:
    """Return the JSON of a flag with other states in these environments."""
    return {**as_json, "states": dict(sorted({**as_json["states"], **states}.items()))}


def common_values(values: Values) -> Values:
    return {name: value for name, value in values.items() if name not in _OF_A_STATE}


def state_values(values: Values) -> Document:
    return {name: values[name] for name in _OF_A_STATE}


def _as_json(flag: Flag, tags: list[str], states: States) -> Document:
    return {**common_as_json(flag, tags), "states": dict(states)}
