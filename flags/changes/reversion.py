"""Undo and revert of flags and segments."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

from config.change_log.entries import filter_visible
from config.change_log.reversion import (
    Revertible,
    Target,
    created_at,
    put_back,
    refusing_by_cause,
    reversibles,
    revert,
)
from config.change_log.writing import Actor, Writing, changing
from config.documents import Document
from config.models import Change, Environment
from flags.changes import bulk, flag_changes, segment_changes
from flags.changes.bulk import FlagEntry, SegmentEntry
from flags.changes.driven_rules import with_driven_rule
from flags.changes.flag_changes import get_flag
from flags.changes.flag_rows import Origin, common_values, flags_as_json, with_states
from flags.changes.properties import OFF, values_of
from flags.changes.segment_changes import get_segment
from flags.models import Flag, Segment

_ANYWHERE = ""
_OWN = ("id", "archivedAt", "states")
"""What a revert keeps of a flag, besides its states in other environments."""


class Flags(Revertible):
    """An undo concerns all environments. A revert concerns one environment and the shared properties.

    A revert neither archives nor restores a flag, and keeps the rule of an experiment.
    """

    noun = "flag"
    is_environmental = True

    def current(self, changes: Sequence[Change]) -> Sequence[Document | None]:
        found = flags_as_json([change.key for change in changes])
        return [found[change.key][1] if change.key in found else None for change in changes]

    def put_back(self, before: Document, after: Document, now: Document) -> Document | None:
        common = put_back(before, after, now, derived=("states",))
        keys = {**before["states"], **after["states"]}
        states = {key: put_back(*(side["states"].get(key, OFF) for side in (before, after, now))) for key in keys}
        changed = {key: state for key, state in states.items() if state is not None}
        return None if common is None or len(changed) < len(states) else with_states(common, changed)

    def write(self, log: Writing, targets: Sequence[Target]) -> None:
        with refusing_by_cause(self.noun, [target.change.key for target in targets]):
            bulk.prepare(log, flags=[bulk.validate_entry(_flag_entry(target)) for target in targets]).write(log)

    def delete(self, log: Writing, changes: Sequence[Change]) -> None:
        found = flags_as_json([change.key for change in changes])
        for change in changes:
            flag_changes.remove(log, *found[change.key])

    def version(self, key: str, revision: int, environment: Environment | None) -> Document | None:
        where = environment.key if environment else _ANYWHERE
        own = filter_visible(Change.objects.of_key(flag_changes.KIND, key), where)
        change = own.filter(revision=revision).first()
        return change.after if change else None

    def reverted(self, now: Document, then: Document, environment: Environment | None) -> Document:
        where = environment.key if environment else _ANYWHERE
        here, state = now["states"].get(where, OFF), then["states"].get(where, OFF)
        rules = with_driven_rule(here["rules"], state["rules"])
        own = {name: now[name] for name in _OWN if name in now}
        common = {name: value for name, value in then.items() if name not in _OWN}
        return with_states({**common, **own}, {where: {**state, "rules": rules}})

    def edit(self, log: Writing, target: Document, environment: Environment | None) -> None:
        if environment is None:
            raise TypeError("A flag is reverted in an environment.")
        flag = get_flag(target["key"], environment)
        flag_changes.change(log, flag, environment, values_of(target, environment.key))


class Segments(Revertible):
    noun = "segment"

    def current(self, changes: Sequence[Change]) -> Sequence[Document | None]:
        found = _segments(changes)
        return [
            segment_changes.segment_as_json(found[change.key]) if change.key in found else None for change in changes
        ]

    def write(self, log: Writing, targets: Sequence[Target]) -> None:
        with refusing_by_cause(self.noun, [target.change.key for target in targets]):
            bulk.prepare(log, segments=[_segment_entry(target) for target in targets]).write(log)

    def delete(self, log: Writing, changes: Sequence[Change]) -> None:
        for segment in _segments(changes).values():
            segment_changes.remove(log, segment)

    def version(self, key: str, revision: int, environment: Environment | None) -> Document | None:
        return segment_changes.segment_at(key, revision)

    def edit(self, log: Writing, target: Document, environment: Environment | None) -> None:
        segment_changes.change(log, get_segment(target["key"]), segment_changes.values_of(target))


reversibles[flag_changes.KIND], reversibles[segment_changes.KIND] = Flags(), Segments()


def revert_flag(
    *,
    key: str,
    revision: int,
    environment: Environment,
    actor: Actor,
    now: datetime,
    if_match: str | None = None,
    reason: str = "",
) -> Flag:
    """Restore a flag's state in one environment and its shared properties to a revision.

    The revision must be in the history of this environment. Raises as `config.change_log.reversion.revert` does, and
    DomainError `flag_not_found` or `precondition_failed`.
    """
    read = partial(get_flag, key, environment)
    with changing(read, if_match, actor=actor, now=now, reason=reason) as (log, flag):
        revert(log, flag_changes.KIND, flag_changes.flag_as_json(flag), revision, environment)
        return read()


def revert_segment(
    *, key: str, revision: int, actor: Actor, now: datetime, if_match: str | None = None, reason: str = ""
) -> Segment:
    """Restore a segment to a revision of its history. Raises as `revert_flag` does."""
    read = partial(get_segment, key)
    with changing(read, if_match, actor=actor, now=now, reason=reason) as (log, segment):
        revert(log, segment_changes.KIND, segment_changes.segment_as_json(segment), revision)
        return read()


def _flag_entry(target: Target) -> FlagEntry:
    as_json, key = target.document, target.change.key
    common = common_values(values_of(as_json, _ANYWHERE))
    is_archived = "archivedAt" in as_json
    return FlagEntry(key, key, common, as_json["states"], is_archived=is_archived, origin=_origin(target))


def _segment_entry(target: Target) -> SegmentEntry:
    key, values = target.change.key, segment_changes.values_of(target.document)
    return SegmentEntry(key, key, segment_changes.validate(key, values), _origin(target))


def _origin(target: Target) -> Origin | None:
    return Origin(UUID(target.change.object_id), created_at(target.change)) if target.is_new else None


def _segments(changes: Sequence[Change]) -> dict[str, Any]:
    return {segment.key: segment for segment in Segment.objects.filter(key__in=[change.key for change in changes])}
